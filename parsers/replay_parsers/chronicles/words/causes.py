"""What was found to be behind it."""

from replay_parsers.chronicles.words.term import Term, term
from replay_parsers.records import EventKind as K

_FAILED = (
    r"\b(?:fail\w*|breaks?|broke|broken|went down|goes down|go down|going down|is down|are down|was down|"
    r"were down|down|"
    r"die[ds]?|dying|dead|lost|crash\w*|fault\w*|unreachable|unresponsive|disconnect\w*|reboot\w*|offline)\b"
)
_MACHINE = r"\b(?:nodes?|hosts?|machines?|instances?|servers?)\b"

CAUSES: tuple[Term, ...] = (
    term(
        K.GPU_FAILURE,
        r"\b(?:missing|lost|dead|faulty|bad|broken|slow) (?:a |the |one )?gpus?\b",
        r"\b(?:gpus?|accelerators?|tpus?)\b..30..\b(?:die[ds]?|dying|dead|fail\w*|lost|missing|crash\w*|"
        r"fault\w*|broken|fell off|"
        r"hardware problem)",
        r"\b(?:uncorrectable )?ecc\b(?! ?memory)|\bxid\b|\bcuda error|\bfell off the bus|\bthermal throttl\w*",
        r"\bhbm\b",
        r"掉卡|(?:显卡|GPU)..4..(?:故障|掉|坏)",
        unless=(r"\bcuda error: out of memory",),
        hides=(K.NODE_FAILURE, K.CRASH),
    ),
    term(
        K.NETWORK_FAILURE,
        r"\bnvlink\b..10..\b(?:error|fail)\w*",
        r"\bnetwork\w*\b..25..\b(?:problem|fail\w*|error|fault|down|flap\w*|issue|outage)",
        r"\bnccl\b..15..\b(?:error|time-?out|issue|fail\w*|watchdog)|\bnccl timed out",
        r"\b(?:infiniband|ib|roce|switch|nic|optical|transceiver|cable)\b..10..\b(?:fail\w*|error|issue|"
        r"down|flap\w*|fault\w*|broke\w*)",
        r"\b(?:bad|broken|faulty|flaky|dead|degraded) (?:infiniband|ib|roce|nic|optical|network|switch|cable|link|"
        r"transceiver)\b",
        r"\blink (?:down|flap\w*)|\bpacket loss\b",
        r"nccl..6..(?:超时|报错|错误)|通信超时|网卡..4..(?:故障|异常|坏)|网络(?:通信)?..6..(?:故障|问题|异常|抖动)|交换机..4..故障|光模块",
        unless=(r"wasn't an issue", r"\bno (?:network )?issue", r"\bnot the\b..12..\bissue"),
        hides=(K.NODE_FAILURE,),
    ),
    term(
        K.STORAGE_FAILURE,
        r"\bfile ?systems?\b..20..\b(?:fail\w*|error|fault|crash\w*|down|full|fill\w* up|outage|hang\w*|slow)",
        r"\b(?:error|fault|failure)s? of the\b..15..\bfile ?system",
        r"\b(?:lustre|gpfs|nfs|s3|blob ?store|disks?|storage|object store|quota|"
        r"ceph)\b..25..\b(?:fail\w*|errors?|full|fault|issue|down|"
        r"exceed\w*|outage|hang\w*)",
        r"\bno space left\b|\bran out of (?:disk|space)|\bcorrupt(?:ed)? checkpoint|\bcheckpoint (?:is |"
        r"was )?corrupt\w*",
        r"文件系统..6..(?:故障|错误|异常)|(?:磁盘|存储|硬盘)..6..(?:满|故障|错误|异常|抖动)|写入失败",
    ),
    term(
        K.MEMORY_ERROR,
        r"\boom(?:s|ed|ing)?\b|\bout of memory\b|\binsufficient shared memory|\bshared memory error|\bmemory leak",
        r"\bdimm\b|\bmemory (?:error|fault|failure)",
        r"内存(?:不足|溢出|泄漏|故障)|爆内存|爆显存|显存(?:不足|溢出)",
        unless=(
            r"\bborderline\b",
            r"\bwhether\b",
            r"\bif the setup\b",
            r"\bwon't oom\b",
            r"\b(?:avoid|prevent|detect)\w*\b..12..\b(?:memory|oom)",
        ),
    ),
    # Of memory, unless it is told of which GPU or machine.
    term(
        K.MEMORY_ERROR,
        r"\becc (?:memory )?(?:error|fault|failure|problem)s?\b",
        unless=(
            r"\buncorrect\w*",
            r"\b(?:gpus?|cuda|xid|hbm)\b",
            r"\b(?:nodes?|hosts?|machines?|on) [a-z]{0,12}[-_]?\d",
        ),
        hides=(K.GPU_FAILURE,),
    ),
    term(
        K.NODE_FAILURE,
        rf"{_MACHINE}..35..{_FAILED}",
        rf"{_MACHINE}..12..\b(?:did not|didn't|do not|failed to) pass\b..30..\b(?:checks?|tests?)\b",
        r"\b(?:faulty|bad|broken|dead|failed|lost|corrupt) (?:a |the |one )?(?:\w+ )?(?:node|host|"
        r"machine|instance)s?\b",
        r"\bloses? connection|\blost connection|\bconnection lost\b",
        r"\bcpu (?:error|fail\w*|故障)",
        r"\bhardware (?:failures?|issues?|errors?|crash\w*|faults?|problems?)\b",
        r"\bnode\s[a-z]{0,12}[-_]?[\w-]{0,12}\d\s(?:is |was )?out\b(?! of memory)",
        r"\b(?:spot|preemptible) (?:instances?|nodes?|vms?)\b..15..\b(?:reclaimed|preempted|taken|lost)\b",
        r"\bcooling (?:failure|outage|fault)\b|\ball (?:nodes|hosts|machines) (?:were |went |are )?(?:down|off)\b",
        r"\bpower (?:outage|failure|loss)\b|\bkernel panic\b",
        r"节点(?:故障|异常|挂|宕)|坏掉|坏点|坏节点|挂节点|失联|掉线|宕机|硬件故障|断电|机器..4..(?:故障|挂)",
        unless=(
            r"\breplac\w*",
            r"\bno(?:t| node) (?:fail|down)",
            r"\bguard against\b|\bhardware failures? (?:continue|recovered)|\bassuming no\b|\bif a\b",
            r"节点数",
            r"\b(?:on|at|until|for|with|by) the next\b..20..\bfail\w*",
            r"\bbroken? down by\b|\bwhen\b..20..\bgo(?:es)? down\b|\bonce\b..12..\bgoes down\b",
            # "To raise hardware issues with the vendor", "machines on a break".
            r"\b(?:rais\w*|escalat\w*)\b..12..\bissues\b|\bon (?:an? |the )?(?:\w+ )?breaks?\b",
        ),
    ),
    term(
        K.DATA_DEFECT,
        r"\b(?:noises?|noisy|garbage|corrupt\w*|broken|bad|wrong|abnormal|duplicat\w*|mislabel\w*|"
        r"contaminat\w*)\b..45..\b(?:data|prompts?|"
        r"samples?|documents?|tasks?|corpus|shards?|batch(?:es)?)\b",
        r"\b(?:data|datasets?|samples?|shards?)\b..30..\b(?:nois\w+|garbage|corrupt\w*|broken|"
        r"mislabel\w*|contaminat\w*)",
        r"\b(?:junk|gibberish|garbage|\w+-only) (?:samples|records|documents|data)\b",
        r"\bissues with the (?:new )?dataset\b|\bjson encoding issues?\b",
        r"数据..10..(?:噪声|噪音|异常|错误|脏)|数据(?:本身)?有问题|(?:任务|target)..10..异常|脏数据",
        unless=(
            r"\bskip\w*|跳过",
            r"\bif\b..20..\b(?:data|batch)",
            r"\bless inclined\b|\bexclud\w* the case\b|\bhypothes\w*",
        ),
    ),
    term(
        K.CONFIG_BUG,
        r"\b(?:steps?|settings?|config\w*|values?|hyper-?param\w*|arguments?|size|setup|flag|"
        r"path)\b..60..\b(?:to be wrong|was wrong|were wrong|"
        r"incorrect\w*|mistak\w*|misconfigur\w*|mis-?set|wrongly set)",
        r"\b(?:really |very )?(?:bad )?mistake in the (?:setup|config\w*)|\btypo in\b|\bmisconfigur\w*|"
        r"\bwrong (?:config\w*|setting|flag|value|path)",
        r"\bdid not update\b|\bforgot to (?:set|change|update)|\bsilently (?:being )?ignored",
        r"\b(?:were|was|are|is) not (?:training|learning|updating|being (?:applied|used|updated))\b",
        r"(?:步数|参数|配置)..10..(?:写错|错误|错了|不对)|配错",
        unless=(r"\bsimilar errors\b",),
    ),
    term(K.OPERATOR_ERROR, r"\baccidental\w*|\bby (?:accident|mistake)\b|\bhuman error\b", r"误操作|误删|人为"),
    term(
        K.SOFTWARE_BUG,
        r"\bbugs?\b|\brace condition|\bregression in\b|\bmemory corruption\b",
        r"(?:代码|程序)?bug",
        unless=(r"\bdebug\w*", r"\bno bugs?\b"),
    ),
)
