"""What came of it."""

from replay_parsers.chronicles.words.term import Term, term
from replay_parsers.records import EventKind as K

_MAYBE = r"\b(?:might|may|should|could|hope\w*|expect\w*|seems?|would|will|if)\b|推测|应该|希望"

OUTCOMES: tuple[Term, ...] = (
    term(
        K.RECURRED,
        r"\b(?:hit|hits|hitting|got|same) the same (?:issue|problem|error|glitch)\b|"
        r"\bsame (?:thing|issue|problem|spike|trouble|behaviou?r|picture) (?:was )?(?:happened|occurr?ed|appeared|"
        r"came|seen|"
        r"showed)\b|"
        r"\b(?:happened|happens) (?:again|once more|anew)\b|\bsame (?:thing|story) again\b|"
        # What runs or is measured comes back for the good.
        r"(?<!\bloss )(?<!norm )(?<!norms )(?<!ppl )(?<!lexity )(?<!throughput )(?<!speed )(?<!power )(?<!cluster )"
        r"(?<!clusters )(?<!node )(?<!nodes )(?<!machine )(?<!machines )(?<!network )(?<!storage )(?<!system )"
        r"(?<!filesystem )(?<!gpu )(?<!gpus )(?<!rack )(?<!racks )(?<!host )(?<!hosts )(?<!server )"
        r"(?<!servers )(?<!switch )(?<!site )(?<!disks )(?<!scheduler )(?<!slurm )(?<!electricity )"
        r"(?<!service )(?<!link )(?<!training )(?<!\bjob )(?<!\brun )(?<!\bwe )(?<!\bn\d )(?<!\bn\d\d )"
        r"\bcame back\b"
        r"(?! (?:down|by|within|on its own|to|up|online|after|with|into))|\bre-?occurr?ed\b",
        r"\b(?:spikes?|nans?|divergence|instabilit\w+|problem|issue|oscillations?|overflows?) (?:has |had |then |soon |"
        r"promptly )?came back\b(?! down\b| to (?:normal|\d))",
        r"\b(?:spikes?|nans?|problem|issue|instabilit\w+|divergence|trouble|error|oscillations?|overflows?|hangs?) "
        r"(?:is|are|was|were) back\b(?! to\b)",
        r"\bis still there\b|\bgot the same repeat\b",
        r"再次(?:出现|发生)|又出现",
    ),
    term(
        K.RECOVERED,
        r"\bseems? (?:to be )?(?:\w+ )?stable\b|\b(?:is|was|became|remained|running) (?:now )?stable\b",
        r"[:：]\s?stable\W*$",
        r"\b(?:without|w/o) a single (?:\w+ )?(?:instabilit\w+|spike|divergence|problem|issue|crash)\b",
        r"^\W*stable (?:so far|since|again|now|after|until|for)\b|\bstable (?:so far|since|again|"
        r"afterwards)\b|\bno (?:more |further )(?:spikes?|"
        r"issues|problems|crashes)\b",
        r"^\W*(?:outcome|result|status)\W{1,3}(?:recovered|ok|fine|stable|resolved)\b|\blooks fine since\b",
        r"\b(?:stable|healthy|fine|smooth|quiet|clean)\b..12..\b(?:ever since|since(?: then)?|afterwards)\b|"
        r"\blooks? (?:much better|healthy|fine|good|stable) (?:now|again)?(?=\W*$)|\blooks? much better\b",
        r"\b(?:loss|norm|perplexity|ppl|throughput) (?:then |soon |quickly |slowly |has |had )?(?:is|was|came|comes|"
        r"went|got) (?:right |all the way )?back (?:down )?(?:to|at|by|within|in) (?:about |around |~ ?|under |below |"
        r"step )?\d|\bcame back (?:down )?to (?:about |around |~ ?|under |below )?\d{1,2}(?:\.\d{1,4})?\b(?![,k]\d?)",
        r"\bback to (?:normal|its? usual)\b|\bsolved the (?:problem|issue)\b|\bthat (?:fixed|solved) it\b",
        r"\b(?:copy|copied|copying|restor\w+) (?:the )?\w+ (?:back )?from (?:the |a )?backup",
        r"\b(?:cluster|machines|nodes|service|file ?system) (?:was|were) (?:\w+ )?restored\b",
        r"\b(?:managed|able) to (?:continue|keep|go on|resume) (?:training|running|with)\b|"
        r"\b(?:managed|able) to (?:\w+ly )?(?:overcome|recover)\b|\bovercame\b",
        r"\b(?:sufficient|enough) (?:for|to) (?:re-?)?stabili[sz]\w+|"
        r"\bsolution\b..12..\b(?:seems|is|looks) sufficient\b",
        r"\breduced (?:our |the )?(?:\w+ ){0,2}recovery time\b",
        r"(?:之后|此后|随后)..4..(?:稳定|平稳)|似乎能?稳定|稳定了|恢复正常|问题解决|重新从..8..拷贝",
        unless=(
            r"\bback\b..40..\band (?:then )?(?:explod|diverg|spik|blew)",
            r"\bloss[ -]?scal",
            r"\bshould\b|\bhope|\bmore stable\b|(?<!managed )(?<!able )\bto keep\b",
        ),
    ),
    term(
        K.ABANDONED,
        r"\babolish\w*|\babandon\w*|\bgiv\w* up\b|\bgave up\b|\bdiscard(?:ed)? (?:this|the) (?:run|attempt)",
        r"\bproved (?:to be )?(?:unacceptable|unworkable|impossible)\b",
        r"\bstopp?(?:ed|ing) (?:this |the )?(?:experiment|training)\b(?! and\b| to\b)|\bpaused here\b|"
        r"\bkilled (?:this|the) (?:experiment|run)\b",
        r"废除|废弃|放弃|作废",
        unless=(r"\bplan\b..10..\babandon",),
    ),
    term(
        K.UNAFFECTED,
        r"\bnothing changes?d?\b|\b(?:made )?no (?:change|difference|improvement|effect)\b",
        r"\b(?:did ?n[o']t|did not|hasn't|has not|doesn't) (?:help|change anything|make (?:a|any) difference)",
        r"\bhasn't helped\b|\bonly to (?:realize|find|discover)\b|\bidentical loss\b|\bsame trajectory\b|"
        r"\bfailed (?:too|in a very similar way)\b|\bvery similar (?:failure|to exp)",
        r"不解决问题|没有(?:变化|改善|效果)|无效|没用",
        unless=(r"\bno config change\b",),
    ),
    term(
        K.RECOVERED_BY_ITSELF,
        r"\brecover\w*\b..20..\b(?:automatic\w*|by (?:itself|themselves)|on (?:its|their) own)",
        r"\b(?:luckily|quickly|eventually|mostly|fully|soon) (?:it )?recover(?:ed|ing|s)\b|"
        r"\bit recovered\b|\bloss recovered\b",
        r"\b(?:went away|disappeared|subsided|resolved)\b..6..\b(?:without (?:any )?intervention|by itself|"
        r"on its own)\b",
        r"\bself-?heal(?:ed|ing|s)?\b",
        r"\bcame back\b..30..\b(?:by itself|on its own)\b|\bcame back (?:by itself|on its own)\b|"
        r"\bcame (?:back )?down (?:by itself|on its own)\b|\b(?:some|about|took|in) ~?\d+ (?:iterations|"
        r"steps) to recover\b",
        r"(?:自动|自行|自己)恢复了?",
        unless=(
            _MAYBE,
            r"\bcouldn't\b|\bcan'?t\b|\bnot recover|\bnever recovered|\brecovery time\b|\bcheckpoint\b|"
            r"\bas a result of\b",
        ),
    ),
)
