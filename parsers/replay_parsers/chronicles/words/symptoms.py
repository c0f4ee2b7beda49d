"""What was seen."""

from replay_parsers.chronicles.words.term import Term, term
from replay_parsers.records import EventKind as K

# The loss went up, as nouns and verbs.
_ROSE = r"\b(?:spik\w*|jump\w*|surg\w*|glitch\w*|bump\w*|shot up)"
_BLEW = r"\b(?:explo[ds]\w*|blow\w* up|blew up|blow-?up|went belly|skyrocket\w*)"
_FELL = r"\b(?:reduc\w*|drop\w*|fall\w*|fell|collaps\w*|decreas\w*|plummet\w*|back(?:ed|ing)? off|halv\w*)"

SYMPTOMS: tuple[Term, ...] = (
    term(
        K.NAN_LOSS,
        r"\bnans?\b(?! iterations)",
        r"\bnot a number\b|\bloss\s?=\s?inf\b|\binf(?:inite)? loss\b|\bloss\b..8..\b(?:is|went|became|"
        r"hit) inf(?:inity)?\b",
        unless=(
            r"\b(?:no|without|nor|not|never|avoid\w*|prevent\w*) (?:any |more |further |a |a single |one )?nans?\b",
            r"\bnans? (?:check|everywhere)",
            r"\bif\b..20..\bnan",
        ),
    ),
    term(
        K.LOSS_SCALE_FLOOR,
        r"\bloss[ -]?scal\w*..30..\b(?:minimum|floor|underflow\w*|lowest|hit\w* (?:the |its )?min)",
        r"\bloss[ -]?scal\w*..12..\b(?:to|at|reached) (?:0|1|zero)\b(?!\.)",
        r"\bminimum loss scale\b",
        r"loss[- ]?scale..10..(?:降到底|最小值|归零)",
        unless=(r"没有", r"did not", r"\bstable\b"),
        hides=(K.LOSS_SCALE_DROP,),
    ),
    term(
        K.LOSS_SCALE_DROP,
        rf"\bloss[ -]?scal\w*..30..{_FELL}",
        rf"{_FELL}..12..\bloss[ -]?scal\w*",
        r"loss[ -]?scal\w*..20..(?:下跌|下降|骤降|骤减|暴跌)",
        unless=(r"没有", r"\bstable\b", rf"\b(?:no|not|n't|without)\b..15..{_FELL}"),
    ),
    term(
        K.OVERFLOW_SKIP,
        r"\bgradient overflow\w*",
        r"\boverflow\w*..20..\bskip\w*",
        r"\b(?:fp16|gradients?) overflow(?:s|ed)\b",
        r"梯度溢出",
    ),
    term(
        K.LOSS_EXPLOSION,
        rf"\bloss(?:es)?\b..30..{_BLEW}",
        rf"{_BLEW}..15..\bloss",
        r"^\W*(?:it |the (?:run|training|model) )?(?:explod(?:ed|es)|blew up|blows up)\b",
        r"loss..16..(?:爆炸|炸)",
        r"损失..6..(?:爆炸|炸)",
        unless=(r"\b(?:grad|gradient)\b..12..\b(?:explo)", r"\b(?:no|without|avoid|prevent)\b..15..\bexplo"),
        hides=(K.LOSS_SPIKE, K.DIVERGENCE),
    ),
    term(
        K.DIVERGENCE,
        r"\bdis-?converg\w*",
        r"(?<!\bnot )(?<!n't )\bdiverg(?:ed?|es|ing|ences?)\b",
        r"\b(?:went|going) (?:in|into) the wrong direction",
        r"\bnot converg\w*|\bloss\b..20..\b(?:creep\w*|drift\w*|ris(?:es|ing)) (?:steadily |"
        r"slowly )?(?:up|upwards?)\b",
        r"\bloss\b..12..\b(?:steadily|slowly) (?:ris|increas|grow)\w*",
        r"\bloss\b..12..\b(?:climbing|climbed) (?:since|steadily|slowly|all)\b",
        r"\bbelly up\b",
        r"爆炸|炸了|发散|不收敛",
        r"(?:又|再次|还是)挂了|训练(?:仍然|还是|依然)有问题",
        unless=(
            r"\b(?:before|avoid|prevent|toward|towards|until|till|causes? of|risk of|instead of|without|"
            r"no|point of)\s+"
            r"(?:the |any |its )?diverg",
            r"\b(?:same|similar|identical)\s+(?:behaviou?r|as)\b",
            r"\b(?:should|may|might|could|would|will|can)\b..8..\bdiverg",
            r"\bdiverg\w+ (?:from|between)\b",
        ),
    ),
    term(
        K.GRAD_NORM_SPIKE,
        rf"\bgrad(?:ient)?s?\b..35..(?:{_ROSE}|{_BLEW})",
        rf"\bgrad(?:ient)?[ _-]?norms? and [\w ]{{3,20}}norms?\b..20..{_ROSE}",
        rf"(?:{_ROSE}|{_BLEW})..12..\bgrad(?:ient)?\b",
        r"梯度(?:范数)?..8..(?:spike|尖峰|爆炸|异常|飙升|变大|增大|升高|上升|暴涨)",
        r"梯度范数从?..12..(?:涨|飙|升|跳|冲)到",
        r"\bgrad\b..10..spike",
        r"\bgrad(?:ient)?[ _-]?norms?\b..12..(?:\b(?:increas|grow|ris|peak|climb|creep)\w*|"
        r"超过|高达|\b(?:went|rose|jumped|climbed|grew) (?:up )?from\b|\b(?:went|going|goes) up\b|\b(?:hit|hits|"
        r"reached) \d|[>≥]\s?\d|\babove \d|\bover \d|\bexceed)",
        unless=(r"\b(?:no|without)\b (?:\w+ ){0,2}(?:grad\w*|spike)",),
        hides=(K.LOSS_SPIKE, K.LOSS_EXPLOSION),
    ),
    term(
        K.LOSS_SPIKE,
        rf"\b(?:loss|perplexity|ppl)\b..45..{_ROSE}",
        rf"{_ROSE}..20..\bloss\b",
        r"\bloss\b..30..\bdrastic (?:change|shift|rise)",
        r"\bloss\b..12..\b(?:left|leaves|leaving|departs? from|departed from|off) (?:its|the|from its) trend",
        r"\bloss\b..6..\b(?:doubled|tripled|quadrupled)\b",
        r"\bloss\b..20..\b(?:went|rose|climbed|increased|going|goes|rises|climbs) (?:\w+ )?(?:up )?from\b",
        r"^\W*(?:an? |another |huge |big |small |first |second |the |there was |we (?:had|saw|hit|"
        r"registered|see) )*"
        r"(?:[A-Za-z]+ )?(?:spikes?|glitch)\b",
        r"\bspiked\b|\bspikes? (?:was |is )?(?:at|near|around) (?:step |iteration |iter |about |~)*\d",
        r"\bloss\b..15..\b(?:increas\w*|rose|rising|climb\w*|going up|went up|"
        r"gone up)\b..12..\b(?:rapid\w*|sharp\w*|sudden\w*|again|quick\w*)",
        r"loss..15..(?:尖峰|波动|突增|飙升|spike)",
        r"损失..8..(?:尖峰|波动|突增|飙升|突刺)",
        unless=(
            r"\b(?:no|not|without|never|n't|any more|w/o)\b..25..\b(?:spik|glitch)\w*",
            r"\b(?:analy[sz]\w*|see|view) (?:the )?spikes?\b",
            r"\b(?:slow|gradual|stead|gentl)(?:ly|ily|y)?\b..12..\b(?:ris|rose|climb|increas|grow|grew|creep|crept|drift|up\b)|"
            r"\b(?:ris|rose|climb|increas|grow|grew|creep|crept|drift|went up|going up)\w*..8.."
            r"\b(?:slowly|gradually|steadily|gently|little by little)\b|缓慢|慢慢",
            r"\b(?:throughput|memory|latency|step time|temperature|power)\b",
            r"\b(?:similar|same)\b..20..\b(?:glitch|spike)..5..\b\d",
        ),
    ),
    term(
        K.ACTIVATION_NORM_DRIFT,
        r"\bactivation\b..12..\bnorms?\b..40..\b(?:drift\w*|spik\w*|grow\w*|ris\w*|increas\w*|chang\w*|explod\w*)",
        r"激活值?..8..(?:漂移|增大|变大)",
    ),
    term(
        K.ATTENTION_LOGIT_GROWTH,
        r"\battention\b..10..\b(?:logits?|entropy)\b..30..\b(?:grow\w*|explo\w*|ris\w*|increas\w*|large|"
        r"collaps\w*)",
        r"注意力..8..(?:logit\w*)..8..(?:增大|爆炸|过大)",
    ),
    term(
        K.PLATEAU,
        r"\bloss\b..20..\b(?:decreas\w*|drop\w*|fall\w*|descend\w*|declin\w*|go\w*|improv\w*) (?:too |"
        r"very |more )?slow",
        r"\bstagnat\w*|\bplateau\w*|\bstuck at (?:a )?loss|\bflatt?en?\w* (?:out|off)\b",
        r"\b(?:stopped|stops) (?:improving|learning|decreasing)\b",
        r"\blearning (?:has )?(?:stopped|slower)\b|\bloss (?:is |stays |stayed |was )?flat\b",
        r"loss..4..(?:降低|下降)..4..慢|不再下降|损失..4..下降..4..慢|停滞",
        unless=(r"\bnot be enough to\b",),
    ),
    term(
        K.THROUGHPUT_DROP,
        r"\b(?:t?flops?|throughput|wps|tokens?/s\w*|samples?/s\w*|(?:training |iteration |step )?speed|"
        r"performance)\b..50.."
        r"\b(?:drop\w*|smaller|lower\w*|slow\w*|decreas\w*|fell|declin\w*|only|degrad\w*|down (?:to|from|by|~?\d))",
        r"\b(?:drop|fall|decrease) in (?:the )?(?:throughput|speed|t?flops?)",
        r"\b(?:steps?|iterations?)\b (?:\w+ )?(?:take|took|taking|are|were|got|"
        r"became) (?:\w+ )?(?:longer|slower)\b",
        r"\b(?:validation|evaluation|step|iteration) times?\b..12..\b(?:increas\w*|grew|doubl\w*|"
        r"went (?:up|from)|jump\w*|ris\w*|rose)",
        r"\bslow(?:er)? (?:node|gpu|iteration|step)s?\b",
        r"训练(?:效率|速度)..14..(?:只有|降|低|慢)|吞吐..8..(?:降|低|下跌)|变慢",
        unless=(
            r"\bnot impact\w*|不受影响",
            r"\b(?:no|not|without|n't)\b..20..\b(?:drop|lower|slow)",
            r"\b(?:loss|lr|learning rate)\b..15..\b(?:slow|lower)",
            r"\bslow(?:er)? (?:down )?(?:decay|convergence|learning)",
        ),
    ),
    term(
        K.HANG,
        r"\b(?:hangs?|hanging|hung|hangs up|deadlock\w*|freez\w*|froze|frozen)\b",
        r"\bstuck\b(?! at (?:a )?loss)",
        r"\bstacked in\b|\bstand(?:s|ing)? still\b|\bstall(?:s|ed|ing)?\b|\bno progress\b",
        r"卡在|卡住|卡死|死锁|挂起|无响应",
        unless=(r"\bstuck with\b", r"\bin the hang\b", r"\b(?:froze|frozen|freez\w+) the\b"),
    ),
    term(
        K.CRASH,
        r"\bcrash(?:ed|es|ing)?\b",
        r"\bunexpected(?:ly)? (?:terminat|end|exit|stop)\w*|\bterminat\w* unexpectedly",
        r"\b(?:job|process|run|training|worker)\b..15..\b(?:died|dies|was killed|got killed|killed|"
        r"exited|aborted|segfault\w*)",
        r"\btraining (?:has |was )?(?:temporarily |suddenly )?(?:stopped|interrupted)\b|训练(?:停止|中止)",
        r"\bkilled the (?:job|run|process|training)\b|任务(?:挂|失败|中断)",
        r"\bkilled by\b|\bsegfault\w*|\bsegmentation fault|\bpreempt(?:ed|ion)\b",
        r"意外终止|异常退出|崩溃|进程..4..(?:退出|挂)|被杀|训练中断",
        unless=(
            r"\b(?:did|does|do|has|have|had|was|is|will|would)(?: not|n['’]t|n't| never)\b..20..\bcrash|"
            r"\b(?:never|without) (?:a |any )?crash",
            r"\bcrashed? test\b",
            r"\bif\b..30..\bcrash",
            r"\bmanually killed\b",
        ),
    ),
)
