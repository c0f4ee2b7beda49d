"""What was done."""

from replay_parsers.chronicles.words.term import Term, term
from replay_parsers.records import EventKind as K

_MACHINES = r"(?:nodes?|hosts?|machines?|instances?)\b"
_OUT = r"\b(?:remov|exclud|drain|cordon|blacklist|isolat|tak(?:e|ing)|took)\w*"

ACTIONS: tuple[Term, ...] = (
    term(
        K.END,
        r"\b(?:completed|finished|concluded)\b..12..\btraining run\b|\btraining (?:run )?(?:is |was |"
        r"has )?(?:completed|finished|ended)\b",
        r"^\W*(?:the |our |main |final )*(?:run|job|pre-?training)\b..40.."
        r"\b(?:finished|completed?|concluded|ended|done)\b"
        r"(?! (?:validation|eval\w*|loading|the|its|check\w*))",
        r"^\W*(?:we )?(?:finished|completed|ended|done)\b\W{0,3}(?:(?:at|after|with|in all)\W)?(?:(?:step|"
        r"iteration) )?\d[\d,.]*k?"
        r"(?: (?:steps|iterations))?\W*$",
        r"训练(?:结束|完成|完毕)",
        unless=(r"\bonce the\b|\bwhen\b|\buntil\b|\bto finish\b|\bthe training finished the\b",),
    ),
    term(
        K.START,
        r"\btraining (?:starts?|started|begins|began|launched|kicked off)\b",
        r"\b(?:we |officially )?start(?:s|ed|ing)? (?:the )?(?:main |full |pre-?)?training\b",
        r"\blaunch day\b|^\W*started\W*$|^\W*started (?:at \d\d?[:h]\d\d|on \d)",
        r"\bbegan (?:the )?(?:pre-?)?training\b|^\W*(?:run|job)\b..40..\b(?:started|launched)\b",
        r"\bkicked (?:things|it|this) off\b|\b(?:run|job|experiment|pre-?training) (?:started|begins|"
        r"began|launched|kicked off)\b|"
        r"^\W*started (?:the )?run\b",
        r"^\W*started from (?:iteration|step) 0\b",
        r"^\W*(?:start|beginning) of (?:the )?(?:training|run|pre-?training)\b|^\W*(?:start|launch(?:ed)?)(?=\W*(?:$|"
        r"[,(]))",
        r"^\W*launch(?:ed)?\W*$|\bkicked off (?:the )?(?:main |full )?(?:training|run)\b",
        r"(?<!time to )\b(?:launch|start|began|begin|kick)\w*(?: off)? (?:\w+ ){0,3}(?:experiment|run|lineage)\b(?!s)",
        r"^\W*(?:开始训练|训练开始|正式开始训练|启动训练|正式开训|开训)\W*$",
        unless=(
            r"\bfrom (?:the )?(?:step [1-9]|iteration [1-9]|global|checkpoint|last|\d)|从",
            r"\bbefore training\b|\bre-?start|\bcrash|\bagain\b|\bhang|\bdiverg|\bwhen starting\b",
            # "We kicked off a small ablation run beside it."
            r"\b(?:small(?:er)?|side|toy|tiny|ablations?|sweeps?|proxy|baseline|trial) "
            r"(?:\w+ )?(?:runs?|experiments?)\b",
        ),
    ),
    term(
        K.MAINTENANCE,
        r"\bmaintenance\b|\b(?:cluster|driver|machine|firmware|slurm\w*|scheduler|kernel|fabric|"
        r"operating system)\b..20..\bupgrad\w*|\bplanned (?:downtime|outage)",
        r"维护|升级驱动|停机",
    ),
    term(
        K.NODE_REPLACEMENT,
        rf"\b(?:replac|swap|exchang)\w* (?:out )?(?:the |a |one |bad |faulty |failed |broken |this |"
        rf"that )*(?:\w+ )?{_MACHINES}",
        rf"{_OUT} (?:the |a |one |bad |faulty |slow |culprit |this |that |out )*(?:\w+ )?{_MACHINES}",
        r"\b(?:swapp?\w*|replac\w*)\b..25..\bspare\b|\bspare (?:node|host|machine)\b",
        r"\b(?:pulled|taken|took|pull|take)\b..20..\b(?:out of|from) (?:the )?(?:rotation|service|pool)\b",
        r"\b(?:drained|cordoned|pulled|removed|evicted)\b,? (?:and|then|&) (?:was |were |got )?(?:replaced|swapped)\b|"
        r"\b(?:replaced|swapped(?: out)?)\b,? (?:by|for|with) (?:the |a |two )?"
        r"(?:spares?|hot spares?|[a-z]{1,10}[-_]?\d{2,6})\b|"
        r"^\W*swapped out\W*$|^\W*replaced\W*$|\b(?:was|were|got) swapped out\b",
        r"\bkick(?:ed|ing) [a-z]{1,10}[-_]\d{2,6}\b|"
        r"\b(?:replaced|swapped) (?:them |it |both|all (?:of them|\w{3,5}))\b",
        r"\bkick\w*\b..20..\bout\b|\banother node pool|\bnew node pool",
        rf"\b{_MACHINES}..40..\b(?:was|were|been|got) (?:removed|replaced|swapped|excluded|drained|cordoned)",
        r"\b(?:replac|swap|remov|exclud|drain|cordon)\w* (?:out |the |gpu )*[a-z]{1,10}[-_]?\d{2,6}\b|"
        r"\bculprit node\b..15..\bexclud",
        r"踢出|换节点|换上了?..4..(?:node|节点|机器|host)|换一批节点|换了?(?:一?个|一?台)?(?:新)?(?:节点|机器)|剔除|替换..14..(?:节点|机器)|更换..4..节点",
        r"--exclude\b",
        unless=(r"\bability to\b|\bcan take hours\b|\bthrough a script\b|\bto replace a bad\b",),
        hides=(K.NODE_FAILURE,),
    ),
    term(
        K.MONITORING_CHANGE,
        r"\b(?:print|log|record|track|monitor)(?:s|ing|ged)?\b (?:the |more |out |extra |additional |"
        r"also |of )*(?:[\w/+-]+ ){0,3}?"
        r"(?:loss(?:es)?|norms?|metrics?|gradients?|stat\w*|histograms?)\b",
        r"\b(?:add\w*|more) (?:\w+ ){0,3}?(?:logging|monitoring|alerts?|dashboards?|watchdog)\b|"
        r"\bcreated a watchdog",
        r"\bfrequency of (?:validation|evaluation|logging)\b",
        r"(?:打印|记录|监控)..15..(?:loss|norm|损失|范数)|loss..4..打印",
        unless=(r"\btensorboard (?:record|log)", r"\bmain log\b|\blog file\b"),
    ),
    term(
        K.DATA_MIX_RAMP,
        r"\bsmooth\w*\b..30..\b(?:distribution|data|shift|mix\w*)",
        r"\bwarm\w*[ -]?up\b..50..\bratio|\bratio\b..30..\bwarm",
        r"\b(?:gradually|slowly|progressively)\b..40..\b(?:data|mix\w*|ratio|proportion)",
        r"逐渐..12..(?:分布|比例|配比)|平滑..8..(?:分布|数据)|数据..8..warm",
        hides=(K.DATA_CHANGE,),
    ),
    term(
        K.WAIT,
        r"^\W*action\W{1,3}none\b|\bleft it alone\b|\blet it run\b|\bno (?:action|intervention)(?: taken|"
        r" needed| required)?\b",
        r"\b(?:will|just|let's|decided to) (?:wait|keep (?:watching|going)|monitor|watch)\b",
        r"未处理|没有处理|继续观察|暂不处理|先观察",
    ),
    term(
        K.QK_NORM,
        r"\b(?:add\w*|enabl\w*|turn\w* on|us(?:e|ed|ing)|switch\w* to|appl\w*|"
        r"introduc\w*)\b..20..\bqk[ _-]?(?:layer)?[ _-]?norm\w*",
        r"(?:加入?|使用|启用)..8..qk[ _-]?(?:layer)?norm",
    ),
    term(
        K.DATA_RESHUFFLE,
        r"\bre-?shuffl\w*|\bshuffl\w* (?:the )?(?:data|samples) again",
        r"重新打乱|打乱数据|重新shuffle",
    ),
    term(
        K.DATA_CHANGE,
        r"\b(?:chang\w*|switch\w*|replac\w*|swap\w*) (?:\w+ ){0,4}?(?:to )?..30..\b(?:data(?:sets?)?|"
        r"corpus|corpora|data mix\w*|mixture)\b"
        r"(?! ?load)",
        r"\b(?:add(?:ed|ing|s)?|remov\w*|drop(?:ped|ping|s)?|delet\w*|filter\w*) (?!steps?|"
        r"iterations?|after\b|below\b|when\b|once\b|(?:in |per-corpus ){0,2}validation)"
        r"..50..\b(?:data(?:sets?)?|corpus|shards?|documents)\b",
        r"\b(?:switch\w*|mov\w*|chang\w*) to (?:the |a )?(?:\w+ ){0,2}mix(?:ture)?\b",
        r"数据配比..4..(?:调整|修改|变更)|(?:调整|修改|改变|更换)..6..配比",
        r"\b(?:self-supervised|text)[ -](?:pre-?training )?only\b|\bnew data mix\w*|\bremov\w* (?:them|"
        r"it|the noisy)\b",
        r"\bepoch (?:2|two)\b|\bsecond epoch\b",
        r"换..16..(?:数据|纯文本|语料)|(?:加入?|增加|去掉|删除|移除)..16..(?:数据|语料)",
        unless=(
            r"仍然|依然",
            r"\bstable\b|\breshuffl|\bdata ?load\w*|\bdata ?parallel|\bcop(?:y|ied) data|\bskip\w*|跳过|"
            r"数据加载|\bdistribution chang|"
            r"\bcannot read\b",
            r"\btensorboard\b|\bcheckpoints?\b",
            r"\bone way to\b|\bif you\b|\b(?:between|of|from) (?:steps?|iterations?|batch(?:es)?) \d",
        ),
    ),
    term(
        K.LR_REWARM,
        r"\bre-?warm\w*\b..25..\b(?:learning rate|lr)\b|\b(?:learning rate|lr)\b..15..\bre-?warm\w*",
        r"\bwarm\w*[ -]?up\b..60..\b(?:learning rate|lr)\b|\b(?:lr|learning rate)\b..12..\bwarm\w*[ -]?up",
        r"\bwarm[ -]?up (?:was |is |were )?(?:repeated|redone|run again|restarted|started over)|"
        r"\b(?:repeat|re-?did|re-?do|redo)\w* (?:the )?(?:lr )?warm[ -]?up",
        r"学习率..10..(?:重新)?(?:warm|预热)|\blr\b..12..warmup",
        unless=(
            r"\brequires? warm|\bneed\w* (?:to )?warm|也需要|\blogic\b|逻辑|\bremov|\bhas ended|\blonger\b|"
            r"\bend of\b|\bduring\b|"
            r"warm-?up (?:stopped|ended|end)|去掉|--lr-warmup|\bmoment where\b|\bstopped\b|\bis always\b|"
            r"\bcan't\b|\brelated to\b",
            r"\bwarm-?up (?:samples|steps)\b|\bramp-?up phase\b",
        ),
    ),
    term(
        K.LR_SCHEDULE_CHANGE,
        r"\b(?:remov|drop|turn\w* off|disabl|without)\w* (?:the )?(?:lr )?warm-?up\b|去掉..4..warm-?up",
    ),
    term(
        K.SOFTWARE_CHANGE,
        r"\bchang\w*\b..30..\bimplementation|\b(?:using|use|switch\w* to) another\b..30..\bencoding|"
        r"\bposition[_ ]ids?\b",
        r"\b(?:upgrad|downgrad|updat)\w* (?:to |our |the )*(?:\w+ )?(?:torch|pytorch|cuda|nccl|megatron|"
        r"deepspeed|apex|python|transformers?|flash)",
        r"\bswitched\b..60..(?:\b(?:branch|commit|version|release)\b|@|\b[0-9a-f]{7,40}\b)",
        r"\brolling back to the last commit|\bgit checkout [0-9a-f]{7,40}",
        r"(?:升级|更换|改成?)..24..(?:版本|逻辑|实现)|升级..8..框架",
        unless=(r"\bdriver upgrade",),
    ),
    term(
        K.CODE_FIX,
        r"\b(?:fix|patch|repair|mend)(?:ed|ing|es)?\b (?!std|init)..40..\b(?:bugs?|code|issue|problem|it|"
        r"leak|deadlock|race)\b",
        r"\b(?:bug|issue|problem|bloat)\b..30..\b(?:was |is |been |got )?(?:fixed|patched|solved|resolved)\b",
        r"\b(?:solved|resolved|fixed) by\b|\bwork-?around\b|\bband-?aid\b",
        r"修复|修了..6..bug|修正了",
        unless=(
            r"\bnot (?:yet )?(?:fixed|resolved)",
            r"\b(?:to be|needs? to be|should be|supposed to be) fixed",
            r"无法修复",
        ),
    ),
    term(
        K.OPTIMIZER_RESET,
        r"\brebuil\w+ (?:the )?optimi[sz]er state|\b(?:reset|resetting|re-?initiali[sz]\w*|"
        r"discard\w*)\b (?:the )?(?:\w+ )?(?:optim\w*|adam\w*)|"
        r"\boptimi[sz]er(?: states?)? (?:was |is |were )?reset",
        r"重置..4..(?:优化器|optimizer)",
        unless=(r"\bnext, will\b|\bonly to realize\b",),
    ),
    term(
        K.RESTART_FROM_SCRATCH,
        r"\babort\w*\b..12..\b(?:config\w*|settings|set-?up|lineage)\b..120..\badopt\w*",
        r"\b(?:re-?start\w*|re-?run|again|rerun\w*)\b..25..\b(?:from the beginning|from (?:iteration|step) 0)\b",
        r"\broll\w* back to (?:iteration|step) 0\b|(?<!run )(?<!training )\bfrom scratch\b(?! for)|"
        r"\b(?:re-?start\w*|re-?r[au]n\w*|again|anew|over)\b..30..\bfrom scratch\b",
        r"从头(?:开始|训练|再来)|从零(?:开始|训练)|重头",
        unless=(
            r"\bnext experiment\b|\btrain from scratch\b|\bif it doesn|\bwhen starting\b|"
            r"\bTrain from scratch for\b|\boptimizer from scratch\b",
        ),
    ),
    term(
        K.SEED_CHANGE,
        r"\b(?:new|chang\w*|different|another) (?:the )?(?:random |data |shuffl\w+ )?seed\b",
        r"换..4..种子|更换..4..seed",
    ),
    term(
        K.INIT_CHANGE,
        r"\b(?:chang|switch|mov)\w*\b..25..\binit(?:iali[sz]ation)?\b..12..\bto\b",
        unless=(r"\bstd\b",),
    ),
    term(
        K.ARCHITECTURE_CHANGE,
        r"\b(?:add|activat|enabl|us|try|remov|without|"
        r"chang)\w*\b..20..\b(?:embed\w*[ -]?(?:layer ?)?norm|embedding layernorm|normformer|"
        r"layer ?norm in)",
        r"\bmodel (?:design|shape)\b..20..\bchang\w*|\bwidth/depth\b",
        unless=(r"\bcan't be\b|\bbut it was also\b",),
    ),
    term(
        K.OPTIMIZER_SWAP,
        r"\b(?:switch\w*|swap\w*|mov\w*|chang\w*|continue|back) (?:\w+ ){0,3}?(?:to|with|for) (?:\w+ ){0,2}?"
        r"(?:sgd|adamw?|adafactor|lion|muon|shampoo|lamb|8-bit adam)\b",
        r"(?:换成|改用|切换到?).{0,6}(?:sgd|adamw?|adafactor|lion|muon|lamb)",
    ),
    term(
        K.ACTIVATION_CHANGE,
        r"\b(?:swap\w*|switch\w*|chang\w*|hot-?swap\w*|replac\w*|mov\w*)\b..25..\b(?:relu|gelu|swiglu|"
        r"geglu|silu)\b",
        unless=(r"<>",),
    ),
    term(
        K.PRECISION_CHANGE,
        r"\b(?:bf16|bfloat16|fp32|fp16|fp8|float32) instead of (?:bf16|bfloat16|fp32|fp16|fp8|float32)\b",
        r"\b(?:switch\w*|chang\w*|mov\w*|use|using|run\w*|went)\b..20..\b(?:to |in )(?:full )?(?:bf16|"
        r"bfloat16|fp32|fp16|fp8|float32)\b",
        r"(?:换成|改用|切换到?|改为).{0,4}(?:bf16|fp32|fp16|fp8)",
        unless=(r"\bif\b|\bone can\b",),
    ),
)
