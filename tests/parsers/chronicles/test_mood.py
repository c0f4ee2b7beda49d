"""What is planned, asked, advised, refused, supposed or told of others is no event, and puts no values into any."""

from __future__ import annotations

import pytest

from replay_parsers.chronicles import general
from replay_parsers.records import Event, EventKind, Records, Role

K = EventKind
DEEDS = (Role.INTERVENTION, Role.LIFECYCLE, Role.OUTCOME)


def parse(text: str) -> Records:
    return general.parse(text.encode(), "book.md", "book")


def told(sentence: str) -> list[Event]:
    """The events of an entry that holds one sentence, between two quiet days."""
    book = (
        f"# Petrel-9B\n\n## 2024-03-01 09:00\nAll quiet.\n\n## 2024-03-02 09:00\n{sentence}\n\n## 2024-03-03\nQuiet.\n"
    )
    return [event for event in parse(book).events if "told_by" not in event.detail]


NOTHING_DONE = [
    # questions
    "Could we go back to step 7,300 and drop the bad shard?",
    "Is anyone against halving the LR and restarting from 8000?",
    "What if we raised beta2 from 0.95 to 0.99?",
    "是不是应该把学习率调到 2e-4？",
    "要不要从 9000 步重启",
    # plans and lists of what is still to be done
    "To do: raise weight decay to 0.2, then skip batches 500-600.",
    "Idea: restart from 41000 with a new seed.",
    "[ ] set the gradient clipping to 0.3",
    "Tomorrow we lower the LR to 5e-5.",
    "We will lower the LR to 5e-5 next week and restart from 60000.",
    "The plan is to resume from 12,000 with batch size 2048.",
    "We intend to go back to 4400, skip 100 batches and change the seed to 7.",
    "明天准备从 8000 步重启，并把 batch size 改成 512。",
    "打算把 weight decay 从 0.1 改为 0.05。",
    # advice and considerations
    "Dana proposed to skip batches 4,100-4,180; the others disagreed.",
    "We talked about halving the learning rate but left it at 2e-4.",
    "Ana wants to revert to 27k.",
    "A rollback to 31,000 was discussed and rejected.",
    "Restart at step 8800 was postponed.",
    "Rewinding to 15,000 would have cost us nine hours.",
    "Perhaps rolling back 300 steps is better.",
    "建议：回滚到 6000 步，换种子。",
    # conditions
    "In case the norm explodes again, restart from 22000.",
    "Lower the LR to 1e-4 if this happens once more.",
    "Had we restarted from 4000, the loss would be fine.",
    "Whenever it comes back, skip the batch and lower LR by 10%.",
    "如果 loss 再涨，就把学习率减半并跳过 500-600 步。",
    # refusals
    "The LR was not lowered.",
    "No rollback this week.",
    "There was no need to roll back to 1200.",
    "We decided against a restart from 3300.",
    "Nobody restarted anything, and we did not touch the LR of 3e-4.",
    "没有跳过任何数据，也没有改学习率。",
    "无需重启，暂不回滚到 5000 步。",
    "本来想回退到 3000 步，后来决定不回退。",
    # others
    "BLOOM rolled back to 31250 in such a case.",
    "The Gopher team had to restart from 5000.",
    "According to their paper they skipped 200-500 batches.",
    "Qwen-72B lowered the LR from 3e-4 to 1e-4 at that point.",
]


@pytest.mark.parametrize("sentence", NOTHING_DONE)
def test_what_was_not_done_is_no_deed(sentence: str) -> None:
    assert [(event.kind, event.step, event.after) for event in told(sentence) if event.role in DEEDS] == []


@pytest.mark.parametrize(
    ("sentence", "kind"),
    [
        ("If the loss spikes once more, call the lead.", K.LOSS_SPIKE),
        ("Without clipping it would have diverged.", K.DIVERGENCE),
        ("昨晚没出现任何 loss 尖峰。", K.LOSS_SPIKE),
        ("今天没有节点掉线，也没有 NaN。", K.NODE_FAILURE),
        ("The Chinchilla team saw a loss spike at 9000.", K.LOSS_SPIKE),
    ],
)
def test_what_was_not_seen_is_no_symptom(sentence: str, kind: K) -> None:
    assert kind not in {event.kind for event in told(sentence)}


@pytest.mark.parametrize(
    ("sentence", "kind", "step"),
    [
        ("We decided to go back to 12,000.", K.ROLLBACK, 12000),
        ("We had to restart from 9900.", K.RESTART, 9900),
        ("We rolled back to 5000 without touching the LR.", K.ROLLBACK, 5000),
        ("Instead of restarting from 5000 we restarted from 4500.", K.RESTART, 4500),
        ("Ana suggested 6000; in the end we restarted from 5500.", K.RESTART, 5500),
        ("It did not come down, so we went back to 7100.", K.ROLLBACK, 7100),
        ("Unlike OPT, we restarted from 640.", K.RESTART, 640),
        ("Petrel-9B was restarted from 8250.", K.RESTART, 8250),
        ("讨论后决定回滚到 7000 步。", K.ROLLBACK, 7000),
        ("考虑到 loss 尖峰，回滚到 7000 步。", K.ROLLBACK, 7000),
        ("没有恢复，回退到 7000 步。", K.ROLLBACK, 7000),
    ],
)
def test_what_was_done_after_all_is_told(sentence: str, kind: K, step: int) -> None:
    assert [(event.kind, event.step) for event in told(sentence) if event.kind in (K.RESTART, K.ROLLBACK)] == [
        (kind, step)
    ]


def test_a_question_takes_nothing_from_what_was_seen() -> None:
    assert [(event.kind, event.step) for event in told("Loss spiked at 5000, should we lower LR?")] == [
        (K.LOSS_SPIKE, 5000)
    ]


def test_what_stands_below_a_heading_of_plans_was_not_done() -> None:
    records = parse(
        "# Log\n\n## 2024-03-02 Loss spike at step 900\nRolled back to step 800.\n\n"
        "### Follow-up\n- Roll back 400 steps.\n- Skip batches 1-9.\n\n### Later\nRestarted from step 850.\n"
    )
    assert [
        (e.kind, e.step, e.lost_steps) for e in records.events if e.role in (Role.INTERVENTION, Role.LIFECYCLE)
    ] == [
        (K.ROLLBACK, 800, None),
        (K.ROLLBACK, 850, None),
    ]


def test_a_line_that_announces_plans_holds_for_the_bullets_below_it() -> None:
    records = parse(
        "# Log\n\n## 2024-03-02\nNode n117 died; restarted from step 800.\n\nNext steps:\n- lower lr to 1e-4\n"
        "- restart from 700\n\nRaised lr to 2e-4.\n"
    )
    assert [(e.kind, e.step, e.after) for e in records.events if e.role in (Role.INTERVENTION, Role.LIFECYCLE)] == [
        (K.LR_CHANGE, 800, 2e-4),
        (K.RESTART, 800, None),
    ]


def test_an_advice_puts_no_loss_into_what_was_done() -> None:
    (back,) = [e for e in told("Rolled back to step 800. Next time, roll back 900 steps.") if e.kind is K.ROLLBACK]
    assert (back.step, back.lost_steps) == (800, None)


@pytest.mark.parametrize(
    "sentence",
    [
        "After a short discussion we agreed not to roll back to 3,300.",
        "After thinking it over we will restart from 3,300.",
        "After considering a rollback to 3,300 we kept going.",
        "Don't forget: roll back to 3,300.",
        "As advised by Ben we should roll back to 3,300.",
        "Skip batches 40-90? Yes, next week.",
        "Should we skip batches 40-90? Yes, agreed.",
        "It's not done: rollback to 3,300.",
        "The idea was to skip batches 40-90; we did not.",
        "Ben argued against skipping 40-90; done.",
        "If it returns, restart from 3,300; we did.",
        "Do not lower the LR after restarting from 3,300.",
        "We never tried to mend it by lowering LR to 7e-5.",
        "建议不采纳：跳过 40-90 步的数据。",
        "希望：学习率从 3e-4 降到 7e-5。",
        "Node n8 is back at 06:15.",
        "Loss is back at 1.97.",
        "The job is back at 06:15.",
    ],
)
def test_talk_that_ends_in_nothing_is_no_deed(sentence: str) -> None:
    done = (Role.INTERVENTION, Role.LIFECYCLE)
    assert [(event.kind, event.step, event.after) for event in told(sentence) if event.role in done] == []


@pytest.mark.parametrize(
    ("sentence", "kind", "step"),
    [
        ("After a long discussion we did roll back to 3,300.", K.ROLLBACK, 3300),
        ("After weighing the alternatives, we rolled back to 3,300.", K.ROLLBACK, 3300),
        ("After talking to the storage people, we restarted from 3,300.", K.RESTART, 3300),
        ("Don't forget: we went back to 3,300 on Monday.", K.ROLLBACK, 3300),
        ("That should hold: restarted from 3,300.", K.RESTART, 3300),
        ("It was not the sampler: rolled back to 3,300 with the old one.", K.ROLLBACK, 3300),
        ("The idea was to skip batches 40-90; we did.", K.SKIP_BATCHES, 40),
        ("As advised by Ben we rolled back to 3,300.", K.ROLLBACK, 3300),
        ("Should we skip batches 40-90? Yes, done.", K.SKIP_BATCHES, 40),
        ("Ben proposed skipping 40-90; done.", K.SKIP_BATCHES, 40),
        ("计划有变，没有改种子，而是回滚到 3300 步。", K.ROLLBACK, 3300),
        ("建议已采纳：跳过 40-90 步的数据。", K.SKIP_BATCHES, 40),
    ],
)
def test_a_deed_beside_talk_is_judged_by_its_own_verb(sentence: str, kind: K, step: int) -> None:
    deeds = [(event.kind, event.step) for event in told(sentence) if event.role in (Role.INTERVENTION, Role.LIFECYCLE)]
    assert deeds == [(kind, step)]


@pytest.mark.parametrize(
    "sentence",
    [
        "After a long discussion, LR 3e-4 -> 7e-5.",
        "The rate was too high, after discussion lowered LR from 3e-4 to 7e-5.",
        "LR 3e-4 -> 7e-5? Yep, changed it at step 3,300.",
        "To do of Monday done: lowered LR from 3e-4 to 7e-5.",
        "The bump was never seen again after lowering LR from 3e-4 to 7e-5.",
        "希望有所缓解：学习率从 3e-4 降到 7e-5。",
    ],
)
def test_a_value_beside_talk_was_set(sentence: str) -> None:
    assert [(e.before, e.after) for e in told(sentence) if e.kind is K.LR_CHANGE] == [(3e-4, 7e-5)]


@pytest.mark.parametrize(
    ("sentence", "outcomes"),
    [
        ("The spike came back at 7,700.", [K.RECURRED]),
        ("NaN came back after 250 steps.", [K.RECURRED]),
        ("Loss came back at 1.97.", [K.RECOVERED]),
        ("Loss was back at 1.97 after 60 steps.", [K.RECOVERED]),
        ("Loss spiked to 5.5, came back to 1.9 within 30 steps.", [K.RECOVERED]),
        ("Restarted from 3,300 and the loss came back to 1.9.", [K.RECOVERED]),
        ("Loss jumped from 1.9 to 5.5 at 7,700 and came back by 7,730 on its own.", [K.RECOVERED_BY_ITSELF]),
        ("The loss came back to 4.1 and exploded again.", []),
        ("Power came back at 06:15.", []),
        ("The cluster came back at 6:15.", []),
        ("The racks came back at 6:15.", []),
        ("The divergence is back at 7,700.", [K.RECURRED]),
        ("Rollback 3,300 -> nan again @ 3,470", [K.RECURRED]),
    ],
)
def test_what_came_back_for_the_good_and_for_the_bad(sentence: str, outcomes: list[K]) -> None:
    assert [event.kind for event in told(sentence) if event.role is Role.OUTCOME] == outcomes


def test_what_stands_behind_an_arrow_is_not_where_training_went_back_to() -> None:
    events = told("Rollback 3,300 -> nan again @ 3,470")
    assert [(e.kind, e.step) for e in events if e.kind in (K.ROLLBACK, K.NAN_LOSS)] == [
        (K.NAN_LOSS, 3470),
        (K.ROLLBACK, 3300),
    ]
