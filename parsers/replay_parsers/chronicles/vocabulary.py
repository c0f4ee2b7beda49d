"""The words by which logbooks tell symptoms, causes, actions and outcomes, in English and Chinese.

Each :class:`Term` names one event kind.  The table is in the order of preference: a clause that is about a loss
explosion is not also about a loss spike (``hides``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from replay_parsers.records import EventKind


@dataclass(frozen=True, slots=True)
class Term:
    """``pattern`` tells ``kind`` in a clause unless ``unless`` is there too; ``hides`` are kinds that the same
    words would wrongly tell as well."""

    kind: EventKind
    pattern: re.Pattern[str]
    unless: re.Pattern[str] | None = None
    hides: frozenset[EventKind] = frozenset()


def _term(kind: EventKind, pattern: str, unless: str | None = None, hides: tuple[EventKind, ...] = ()) -> Term:
    return Term(
        kind,
        re.compile(pattern, re.IGNORECASE),
        re.compile(unless, re.IGNORECASE) if unless else None,
        frozenset(hides),
    )


K = EventKind
_NOT = r"\b(?:no|not|without|never|n't|any more|instead of)\b[^,.;]{0,25}"
_REFERENCE = r"(?:same|similar|identical)\s+(?:behaviou?r|as)"

SYMPTOMS: tuple[Term, ...] = (
    _term(
        K.NAN_LOSS,
        r"\bnans?\b(?!\s*iterations:\s*0)",
        r"no nans?\b|without (?:any )?nans?|nans? (?:everywhere|check)|\bnor nans?",
    ),
    _term(
        K.LOSS_SCALE_FLOOR,
        r"loss[ -]?scal\w*[^,;]{0,30}(?:minimum|floor|underflow|lowest|hit(?:ting)? the min)|minimum loss scale|loss[- ]?scale[^,;]{0,10}(?:降到底|最小值|归零)",
        r"没有|did not|stable",
        (K.LOSS_SCALE_DROP,),
    ),
    _term(
        K.LOSS_SCALE_DROP,
        r"loss[ -]?scal\w*[^,;]{0,30}(?:reduc|drop|fall|fell|collaps|decreas|plummet|going down|下跌|下降|骤降|骤减)",
        r"没有|stable|" + _NOT + "(?:drop|fall)",
    ),
    _term(
        K.LOSS_EXPLOSION,
        r"\bloss(?:es)?\b[^,;]{0,30}\b(?:explo|blow|blew|went belly|skyrocket)\w*|\b(?:explo\w+|blow-?up)\b[^,;]{0,15}\bloss|loss[^,;]{0,10}(?:爆炸|炸)",
        hides=(K.LOSS_SPIKE, K.DIVERGENCE),
    ),
    _term(
        K.DIVERGENCE,
        r"\bdis-?converg\w*|(?<!\bnot )\bdiverg(?:ed|es?|ing|ence)\b|belly up|爆炸|炸了|发散|不收敛|(?:又|再次|还是)挂了|went in the wrong direction|not converg\w*",
        r"(?:before|avoid|prevent|toward|risk of|until|causes? of)\s+(?:the )?diverg|" + _REFERENCE,
    ),
    _term(
        K.GRAD_NORM_SPIKE,
        r"\bgrad(?:ient)?s?\b[^,;]{0,35}\b(?:spik|explo|jump|surg)\w*|\bspik\w*[^,;]{0,12}\bgrad|梯度[^,;]{0,8}(?:spike|尖峰|爆炸|异常)|grad\b[^,;，]{0,10}spike",
        hides=(K.LOSS_SPIKE, K.LOSS_EXPLOSION),
    ),
    _term(
        K.LOSS_SPIKE,
        r"\bloss\b[^,;]{0,45}\b(?:spik\w*|jump\w*|surg\w*|drastic (?:change|shift|rise)|glitch\w*)|\b(?:spik\w*|glitch)\b[^,;]{0,20}\bloss|loss[^,;，]{0,15}(?:尖峰|波动|突增|飙升)|^\W*(?:a |another |huge |big |first |the )*(?:spike|glitch)",
        _NOT + r"(?:spik|glitch)\w*",
    ),
    _term(
        K.ACTIVATION_NORM_DRIFT,
        r"\bactivation\b[^,;]{0,12}\bnorms?\b[^,;]{0,40}\b(?:drift|spik|grow|ris|increas|chang)\w*|激活值?[^,;]{0,8}(?:漂移|增大)",
    ),
    _term(
        K.ATTENTION_LOGIT_GROWTH,
        r"\battention\b[^,;]{0,10}\blogits?\b[^,;]{0,30}\b(?:grow|explo|ris|increas|large)\w*",
    ),
    _term(
        K.PLATEAU,
        r"\bloss\b[^,;]{0,20}\b(?:decreas|drop|fall|descend|declin|go)\w*\s+(?:too |very |more )?slow|\bstagnat\w*|\bplateau\w*|stuck at (?:a )?loss|\bflatt?en?\w* out|stopped improving|loss[^,;，]{0,4}(?:降低|下降)[^,;，]{0,4}慢|learning stopped|不再下降",
    ),
    _term(
        K.THROUGHPUT_DROP,
        r"\b(?:t?flops?|throughput|wps|tokens/s|training speed|speed)\b[^;]{0,50}\b(?:drop\w*|smaller|lower\w*|slow\w*|decreas\w*|fell|declin\w*|only|degrad\w*)|\bdrop\b[^,;]{0,12}\bthroughput|训练(?:效率|速度)[^;；]{0,12}(?:只有|降|低|慢)|吞吐[^,;]{0,8}(?:降|低)",
        r"不受影响|" + _NOT + r"(?:drop|lower)",
    ),
    _term(
        K.HANG,
        r"\b(?:hang(?:s|ing)?|hung|deadlock\w*)\b|\bstuck\b(?!\s+at)|\bstacked in\b|卡在|卡住|卡死|死锁|\bstand(?:ing|s)? still",
    ),
    _term(
        K.CRASH,
        r"\bcrash(?:ed|es|ing)?\b|unexpected(?:ly)? terminat\w*|terminat\w* unexpectedly|unexpected exit|\bkilled by\b|意外终止|异常退出|崩溃",
    ),
)

CAUSES: tuple[Term, ...] = (
    _term(
        K.GPU_FAILURE,
        r"\bmissing gpus?\b|\bgpus?\b[^,;]{0,30}\b(?:die[ds]?|dying|dead|fail\w*|lost|missing|crash\w*|fault\w*|broken|hardware problem|fell off)\b|\blost (?:a )?gpus?\b|\b(?:uncorrectable )?ecc\b|\bxid\b|掉卡|显卡(?:故障|掉)|\bcuda error",
        hides=(K.NODE_FAILURE, K.CRASH),
    ),
    _term(
        K.NETWORK_FAILURE,
        r"\bnvlink\b[^,;]{0,10}\b(?:error|fail)\w*|\bnetwork\w*\b[^,;]{0,25}\b(?:problem|fail|error|fault|down|flap)\w*|\bnccl\b[^,;]{0,12}\b(?:error|timeout|issue|fail)\w*|\b(?:infiniband|ib|roce|switch)\b[^,;]{0,8}\b(?:fail|error|issue|down|flap)\w*|link (?:down|flap)\w*|网络(?:通信)?[^,;]{0,6}(?:故障|问题|异常)",
        r"wasn't an issue|no (?:network )?issue",
        hides=(K.NODE_FAILURE,),
    ),
    _term(
        K.STORAGE_FAILURE,
        r"\bfile ?systems?\b[^,;]{0,20}\b(?:fail|error|fault|crash|down|full)\w*|\b(?:error|fault|failure)s? of the\b[^,;]{0,15}\bfile ?system|\b(?:lustre|gpfs|nfs|s3|blob ?store|disks?|storage|quota)\b[^,;]{0,25}\b(?:fail|error|full|fault|issue|down|exceed)\w*|文件系统[^,;]{0,6}(?:故障|错误)|(?:磁盘|存储)[^,;]{0,6}(?:满|故障|错误)",
    ),
    _term(
        K.MEMORY_ERROR,
        r"\boom(?:ed|ing)?\b|\bout of memory\b|insufficient shared memory|shared memory error|内存不足|爆内存|爆显存|显存不足",
        r"borderline|whether|if the setup|won't oom",
    ),
    _term(
        K.NODE_FAILURE,
        r"\b(?:nodes?|hosts?|machines?|instances?)\b[^,;]{0,35}\b(?:fail\w*|breaks?|broke|down|die[ds]?|crash\w*|fault\w*|dead|lost|unreachable|bad|faulty)\b|\b(?:faulty|bad|broken|dead|failed)\s+(?:node|host|machine)s?\b|\bloses? connection|\blost connection|\bcpu (?:error|fail\w*|故障)|hardware (?:failure|issue|error|crash)\w*|节点(?:故障|异常|挂)|坏掉|坏点|坏节点|挂节点|失联|掉线|宕机",
        r"replac|no(?:t| node) (?:fail|down)|节点数",
    ),
    _term(
        K.DATA_DEFECT,
        r"\b(?:noises?|noisy|garbage|corrupt\w*|broken|bad|wrong|abnormal|duplicat\w*)\b[^,;]{0,45}\b(?:data|prompts?|samples?|documents?|tasks?|corpus)\b|\b(?:data|datasets?|samples?)\b[^,;]{0,30}\b(?:nois\w+|garbage|corrupt\w*|broken|mislabel\w*)|数据[^,;]{0,10}(?:噪声|噪音|异常|有问题|错误)|(?:任务|target)[^,;]{0,10}异常|backslash\w*",
        r"skip\w*|skipping|跳过|\bif\b[^,;]{0,20}data",
    ),
    _term(
        K.CONFIG_BUG,
        r"\b(?:steps?|settings?|config\w*|values?|hyper-?param\w*|arguments?|size)\b[^;]{0,60}\b(?:to be wrong|was wrong|were wrong|incorrect\w*|mistak\w*|misconfigur\w*|mis-?set)|\b(?:bad )?mistake in the (?:setup|config)|\btypo in|\bdid not update|forgot to (?:set|change|update)|(?:步数|参数|配置)[^;；]{0,10}(?:写错|错误|错了|不对)",
    ),
    _term(K.OPERATOR_ERROR, r"\baccidental\w*|\bby accident\b|误操作|误删"),
    _term(
        K.SOFTWARE_BUG,
        r"\b(?:a|the|this|another|one|more|nasty) (?:\w+ ){0,2}bugs?\b|\bbugs?\b[^,;]{0,10}\b(?:in|fix\w*)\b|\bbug\b|\brace condition|(?:代码|程序)?\s?bug",
        r"debug",
    ),
)

ACTIONS: tuple[Term, ...] = (
    _term(
        K.START,
        r"\btraining (?:starts?|started|begins|began|launched)\b(?! from)|\b(?:the )?launch(?:ed)?$|^\W*开始训练$|\bkicked off (?:the )?training",
        r"\bfrom\b|restart|crash|again|hang|diverg",
    ),
    _term(
        K.LR_REWARM,
        r"\bwarm\w*[ -]?up\b[^;]{0,60}\b(?:learning rate|lr)\b|\b(?:lr|learning rate)\b[^,;]{0,12}\bwarm\w*[ -]?up|学习率[^,;，]{0,10}warm",
        r"requires? warm|need\w* warm|也需要|logic|逻辑|remov|as it has ended|longer|end of|during|warm-?up (?:stopped|ended)|去掉|--lr-warmup",
    ),
    _term(
        K.LR_SCHEDULE_CHANGE,
        r"\b(?:remov|drop|turn\w* off|disabl)\w*\s+(?:the )?(?:lr )?warm-?up\b|去掉[^,;，]{0,4}warm-?up",
    ),
    _term(
        K.MAINTENANCE,
        r"\bmaintenance\b|\b(?:cluster|driver|machine)\b[^,;]{0,20}\bupgrad\w*|维护|升级驱动|\bplanned downtime",
    ),
    _term(
        K.NODE_REPLACEMENT,
        r"\b(?:replac|swap|exchang)\w*\s+(?:the |a |one |out |bad |faulty |failed |broken )*(?:nodes?|hosts?|machines?)\b|\bkick\w*\b[^,;]{0,20}\bout\b|\b(?:remov|exclud|drain|cordon|blacklist)\w*\s+(?:the |a |one |bad |faulty |slow |culprit )*(?:nodes?|hosts?|machines?|n\d+)|another node pool|\bnew node pool|\bnode was (?:removed|replaced)|踢出|换节点|换一批节点|换了?(?:一?个|一?台)?(?:新)?(?:节点|机器)|剔除|--exclude",
        hides=(K.NODE_FAILURE,),
    ),
    _term(
        K.MONITORING_CHANGE,
        r"(?<!tensorboard )\b(?:print|log|record|track|monitor)(?:s|ing|ged)?\b\s+(?:the |more |out |extra |additional )*[\w/+-]*\s*(?:[\w/+-]+ )?(?:loss(?:es)?|norms?|metrics?|gradients?|stat\w*)|(?:打印|记录|监控)[^,;]{0,15}(?:loss|norm|损失)|loss[^,;]{0,4}打印|more logging of",
    ),
    _term(
        K.DATA_MIX_RAMP,
        r"\bsmooth\w*\b[^,;]{0,30}\b(?:distribution|data|shift|mix\w*)|\bwarm\w*[ -]?up\b[^,;]{0,50}\bratio|\bratio\b[^,;]{0,30}\bwarm|逐渐[^,;，]{0,12}(?:分布|比例)|平滑[^,;，]{0,8}(?:分布|数据)|数据[^,;，]{0,8}warm",
        hides=(K.DATA_CHANGE,),
    ),
    _term(K.DATA_RESHUFFLE, r"\bre-?shuffl\w*|\bshuffl\w* (?:the )?(?:data|samples) again|重新打乱|打乱数据"),
    _term(
        K.DATA_CHANGE,
        r"\b(?:chang|switch|replac|swap|us)\w*\s+(?:\w+ ){0,3}\b(?:to )?[^,;]{0,45}\b(?:data(?:sets?)?|corpus|corpora)\b(?! load)|\b(?:add|remov|drop|delet)\w*\s+(?!step|iteration)[^,;]{0,20}\b(?:data(?:sets?)?|corpus)\b|\b(?:self-supervised|text)[ -](?:pre-?training )?only\b|\b(?:change|switch|new|newly)\w*\b[^,;]{0,20}\b(?:data(?:set)?) mix|换[^,;，。]{0,16}(?:数据|纯文本)|加入?[^,;，。]{0,16}数据|second epoch|epoch 2\b",
        r"\bstable\b|reshuffl|data ?loader|data ?parallel|cop(?:y|ied) data|skip|跳过|数据加载|distribution chang|we cannot read",
    ),
    _term(
        K.SOFTWARE_CHANGE,
        r"\bchang\w*\b[^,;]{0,30}\bimplementation|\b(?:using|use|switch\w* to) another\b[^,;]{0,30}\bencoding|\bposition[_ ]ids?\b|\b(?:upgrad|downgrad)\w*\s+(?:to |our |the )*(?:torch|pytorch|cuda|nccl|megatron|deepspeed|apex|driver|python)|\bswitched\b[^;]{0,60}(?:\b(?:branch|commit|version|release)\b|@|\b[0-9a-f]{7,40}\b)|(?:升级|更换|改成?)[^,;，]{0,12}(?:版本|逻辑|实现)|\bhot-?swap",
        r"driver upgrade",
    ),
    _term(
        K.CODE_FIX,
        r"\b(?:fix|patch|repair|mend)(?:ed|ing|es)?\b\s+(?!std|init)[^,;]{0,40}\b(?:bug|code|issue|problem|it|leak)\b|\b(?:bug|issue)\b[^,;]{0,30}\bfixed\b|\bwork-?around\b|修复",
        r"not fixed|to be fixed|was supposed to be fixed",
        hides=(K.SOFTWARE_BUG,),
    ),
    _term(
        K.OPTIMIZER_RESET,
        r"\b(?:reset|resetting|re-?initiali[sz]\w*)\s+(?:the )?(?:adam |adamw )?optim\w*|optimi[sz]er (?:was |is )?reset|重置优化器",
    ),
    _term(
        K.RESTART_FROM_SCRATCH, r"\b(?:from scratch|from the beginning|iteration 0|step 0\b)|从头(?:开始|训练)|从零开始"
    ),
    _term(K.SEED_CHANGE, r"\b(?:new|change\w*|different|another)\s+(?:the )?(?:random )?seed\b|换(?:随机)?种子"),
)

OUTCOMES: tuple[Term, ...] = (
    _term(
        K.RECOVERED,
        r"\bseems? (?:to be )?(?:\w+ )?stable\b|\b(?:is|was|became|remained) (?:now )?stable\b|似乎能?稳定|稳定了",
        r"loss[ -]?scal|should",
    ),
    _term(K.ABANDONED, r"\babolish\w*|\babandon\w*|\bgiven? up\b|\bgave up\b|\bdiscard(?:ed)?\b|废除|废弃|放弃|作废"),
    _term(
        K.UNAFFECTED,
        r"\bnothing changes?\b|\bno (?:change|difference|improvement|effect)\b|\bmade no difference|\b(?:did ?n[o']t|hasn't|has not) help|不解决问题|没有(?:变化|改善|效果)|无效|没用",
    ),
    _term(
        K.RECOVERED_BY_ITSELF,
        r"\brecover\w*\b[^,;]{0,20}\b(?:automatic\w*|by itself|on its own)|\b(?:luckily |quickly |eventually |mostly )?(?:it )?(?:recovered|recovering)\b(?! checkpoint)[^,;]{0,30}|(?:自动|自行|自己|后续)恢复了?",
        r"might|may|should|could|hope|expect|seems?|推测|应该|couldn't|can'?t|not recover|recovery time|checkpoint|as a result of",
    ),
)
