"""Words of English that belong together: written by hand, from what everybody knows of words.

`FAMILIES` have one root that stemming does not bring together (decide, decision). `EXCHANGED` are
used for one another, in operations or in daily life. `KINDS` have things that a word is a name for:
who asks for an animal may be answered with a parrot. A line stands here when it is true of ordinary
speech, never because one question needs it.
"""

from __future__ import annotations

FAMILIES = """
able ability|absent absence|accurate accuracy|admit admission|advise advice|agree agreement
analyse analysis analytic|angry anger|apply application|argue argument|ashamed shame
assume assumption|authenticate auth|bake bakery baker|behave behavior|believe belief
birth born birthday|broad breadth|certify certificate|choose choice|collide collision
compare comparison|compete competition competitor|complain complaint|comply compliance
conclude conclusion|consume consumption|convert conversion|create creation creator
curious curiosity|dance dancer|danger endanger|decide decision|deep depth|defend defence
deliver delivery|deny denial|depart departure|describe description|destroy destruction
die death dead|difficult difficulty|discover discovery|divide division|donate donor|easy ease
emphasise emphasis|employ employee|enter entry entrance|enthusiasm enthusiastic
err error erroneous|exceed excess|expand expansion|expire expiry|explain explanation
explode explosion|expose exposure|extend extension|fail failure|famous fame|farm farmer|father dad
flee flight|fly flight|frequent frequency|friend friendship|frighten fright fear afraid
grandfather grandpa|grandmother grandma|grateful gratitude thank|grieve grief|grow growth
hate hatred|heal health healthy|heavy weight weigh|high height|hot heat|hungry hunger
identify identity identification|injure injury|inspect inspector|instruct instructor
intend intention|introduce introduction|invade invasion|jealous jealousy|laugh laughter
lead leader leadership|leak leakage|learn learner|legal law lawyer|lend loan|length lengthy
lonely loneliness|lose loss|loyal loyalty|maintain maintenance|marry marriage|mother mum
move motion movement|music musician|necessary necessity|nervous nerves|occur occurrence
offend offence offensive|omit omission|oppose opposition opponent|own owner ownership
paint painter|pass passage|patient patience|permit permission|persuade persuasion
photo photograph photography|poem poetry poet|poor poverty|practise practice|precise precision
pregnant pregnancy|private privacy|profession professional|pronounce pronunciation
prove proof|provide provision|publish publication|pure purity|pursue pursuit
receive receipt reception|recognise recognition|recover recovery|reduce reduction
register registration|relate relationship|relieve relief|religion religious|rely reliance reliable
remember memory memorable|repair reparation|replicate replica|represent representation
resolve resolution|respond response|retain retention|reveal revelation|revise revision|rob robbery
safe safety|satisfy satisfaction|scarce scarcity|science scientist scientific
sculpt sculpture sculptor|sell sale seller|sign signature|simple simplicity simplify
sing singer song|sit seat|solve solution|speak speech speaker|special specialty|stable stability
strong strength strengthen|study student|submit submission|subscribe subscription|succeed success
surgery surgeon surgical|survive survivor|suspend suspension|swim swimmer|sympathy sympathetic
teach teacher|terrify terror terrible|thief theft steal|threat threaten|tired tiredness
tour tourist tourism|train trainer|transmit transmission|treat treatment|true truth
trust trustworthy|unite union unity|use usage|vacate vacancy|vary variation variety variable
verify verification|view viewer|violent violence|visit visitor|volunteer voluntary|vote voter
warm warmth|wide width|win winner|wise wisdom|write writer|young youth|zeal zealous
"""
"""Separated by bars and by lines."""

EXCHANGED = """
remove delete drop erase purge evict clean|make create build construct produce
start begin launch boot commence|fail break crash die hang freeze stall
error failure fault bug defect problem mistake issue outage incident|slow delay latency lag late
restart reboot recycle|image container|pod container workload
machine node host server instance computer|disk volume storage space filesystem|memory ram heap
cpu processor core|secret credential password key token|database postgres sql db
release deploy ship rollout publish deliver|upgrade update migrate
configuration config setting option parameter|flag toggle switch
limit maximum max cap ceiling quota threshold bound largest|minimum least floor smallest
permission right access role privilege|user customer client visitor|team group crew
cost price spend bill money euro dollar pay expensive|test check verify validate|log record event
backup snapshot copy save|restore recover|retry repeat|timeout deadline|replica copy instance
realm namespace project|owner responsible own|approve permit allow agree|big large huge
small little tiny|often frequent|throw evict discard|lose vanish disappear missing
duplicate twice double|component module service application app|child kid son daughter
mother mum parent|father dad parent|work job career profession occupation|buy purchase
study learn course class school train education|hobby activity pastime|move relocate
ill sick disease health|hurt injure injury|house home flat apartment|win victory
music song instrument|collect raise|animal pet|employee colleague worker consumer
notice detect discover spot observe find recognise|hang stick stall freeze block wait
outgoing egress outbound|incoming ingress inbound|label mark annotation tag|llm model ai
simultaneous parallel concurrent|shrink reduce decrease lower cut halve shorten
grow increase raise rise expand enlarge extend|distribute spread balance scatter
zone region datacenter site location|evict preempt displace expel|batch bulk mass
disturb disrupt interrupt|old earlier previous former prior|new later latest recent current
parse decode read interpret|shell terminal console command|script program code
drop prune strip discard lose ignore skip|throttle limit|prompt instruction
poison broken bad malformed corrupt invalid|event message record notification|member participant
several multiple many|attempt try retry|trace backtrace stack|thumbnail picture image photo
invoice bill charge|spare reserve idle|burst spike surge peak jump|defect bug fault flaw error
clone checkout fetch download|repository repo source|revision commit version change
array list collection|item element entry row|visitor guest customer
expensive cost price dear money euro dollar|weekend saturday sunday|verbose debug
library sdk package dependency module|driver kernel|defer lazy postpone delay
emergency incident urgent outage glass|external contractor outsider vendor partner
refund return reimburse|penny cent|authenticate login signin|drift skew|step stage phase
cheap spot discount|percentage percent share proportion ratio|minimum least threshold
typo misspell|placeholder variable|vulnerability cve weakness finding
severe critical serious major|mail email inbox mailbox|spam junk|bounce undeliverable
slow latency delay lag sluggish|quick fast rapid speed prompt|fill full exhaust overflow quota
stop halt end quit finish abort terminate kill shutdown|crash die abort panic segfault oom
replica copy mirror secondary standby|leader primary master|load traffic demand
certificate tls ssl cert|rotate renew replace|cron schedule recurring periodic timer
night overnight midnight|morning dawn early|host machine node server vm computer box|job task work
deploy release rollout ship launch|revert rollback undo downgrade|allow permit enable grant accept
forbid deny block refuse reject prohibit disallow|alert alarm page notify warn
metric measurement series|graph chart dashboard|keep retain store preserve hold
backup snapshot dump archive|port socket|proxy gateway|queue backlog topic
consumer worker subscriber|producer publisher sender|developer engineer programmer
manager boss supervisor chief|colleague coworker teammate|salary wage pay earn income|resign quit
hire employ recruit|landlord rent tenant|spouse husband wife partner|boyfriend girlfriend partner
wedding marry engage bride groom|pregnant baby birth|baby infant newborn|friend buddy mate pal
argue quarrel fight dispute|forgive reconcile|sad unhappy upset depressed
happy glad pleased delighted joy|afraid scared fear frightened terrified|angry mad furious annoyed
tired exhausted sleepy|nervous anxious worried stress|proud pride|beautiful pretty lovely gorgeous
funny hilarious joke laugh|tasty delicious yummy|doctor physician hospital clinic medical
medicine drug pill medication|operation surgery|dentist tooth|pain ache hurt sore
exercise workout train gym fit|run jog marathon race|hike walk trek trail|swim pool sea beach
trip travel journey vacation holiday visit tour abroad|flight plane airport fly|hotel hostel stay
town city village|sea ocean beach coast|mountain hill peak|forest wood tree|book novel read author
film movie cinema|series show tv episode|paint draw sketch art|concert gig show perform|band group
sing song choir|dance ballet|contest competition tournament championship cup
prize award medal trophy win|lose defeat|charity donate fundraiser volunteer cause|gift present
birthday party celebrate anniversary|dinner meal supper lunch|cook bake recipe kitchen
restaurant cafe diner|shop store market|sell sale|broken damaged|fix repair mend|car vehicle drive
bike bicycle cycle|license permit|school class course lesson|university college degree|exam test
graduate degree diploma|teach tutor teacher|church faith religion pray|dog puppy|cat kitten
plant grow garden|support help assist aid|advice suggest recommend tip|plan intend hope
dream wish goal aim|decide choose pick|meet encounter|born birth|die death funeral
remember recall memory|photo picture snapshot|live reside stay|relax unwind rest calm
inspire motivate|enjoy love like|hate dislike|interest hobby passion|afford expensive|rich wealthy
steal rob theft thief burglar|police officer|accident crash collision|storm hurricane flood
identity gender
"""
"""Separated by bars and by lines."""

INSTEAD = """
abandon: stop drop|abort: cancel kill stop|absent: missing|accelerator: gpu cuda faster speed
accumulate: grow fill pile|accuracy: precision wrong|acknowledge: ack confirm
administrator: admin root|affinity: node topology zone|aggregate: sum group
allocate: reserve request|ancient: old legacy|anonymous: unauthenticated public|antivirus: scan
archive: backup tar|artifact: image jar wheel build|asynchronous: queue worker async|attach: mount
audit: log|authentication: login token oidc sso|authorization: rbac role permission
autoscale autoscaling: hpa replicas|availability: uptime replica outage
bandwidth: network throughput|baseline: default|binary: executable|bottleneck: slow limit
branch: git main|broker: kafka rabbitmq queue|browser: chrome firefox|budget: limit cost
bundle: package|bypass: skip ignore|calendar: date schedule|certificate: tls expire renew
checkpoint: save snapshot|checksum: hash digest sha|cleanup: delete prune gc|clock: ntp time drift
cloud: aws gcp azure|codebase: repo repository|collision: conflict duplicate|command: run cli
compatibility: version support|compile rebuild: build|compress: gzip zstd|compute: cpu
concurrency: parallel thread worker|conflict: 409 resourceversion merge|congestion: network queue
connection: socket pool tcp network dns firewall|consensus: raft quorum etcd
consistency: replica lag|container: docker image pod|contention deadlock: lock wait
corrupt: broken checksum|crash: restart exit oomkilled|credentials: secret token password
cron: schedule job|customer: tenant user|cutover: switch migrate|dashboard: grafana panel
database: postgres mysql sqlite|debug: log trace|decommission: remove drain|default: unless
degrade: slow|dependency: package lock version|deploy: rollout release helm|deprecate: removed old
deserialize: parse json|developer: engineer team|directory: folder path|discard: drop delete
disk: volume pvc filesystem|domain: dns hostname|downtime: outage maintenance|drain: evict node
encoding: utf|encrypt: tls kms key|endpoint: url path service|environment: staging production dev
error: fail exception exit|escalate: page oncall|eviction: memory pressure disk|exceed: limit above
exhaust: run full limit|expensive: cost slow|expiration: ttl|exporter: metrics prometheus
failover: standby replica primary|failure: fail error exit|faulty: broken bad|feature: flag
filesystem: disk volume ext4 xfs|firewall: port security rule|flaky: retry intermittent random
forbidden: 403 rbac|format: json yaml|fragment: split|freeze: hang lock|frontend: web ui browser
garbage: gc collect|gateway: ingress proxy envoy|graceful: sigterm drain shutdown|grant: allow role
guideline: rule must|hardware: cpu gpu disk node|heap: memory jvm|hostname: dns|idle: unused timeout
image: tag registry digest pull|immutable: change recreate|inaccessible: denied unreachable
incident: outage postmortem|inconsistent: differ|indefinite: forever never
ingress: nginx gateway http|insecure: http plain|install: apt pip helm
integration: test ci checksum verify|interactive: shell terminal tty|intermittent: flaky sometimes
interval: seconds minutes every|invalid: wrong bad|invoke: call run
isolate: namespace network policy|kernel: linux sysctl|kill: sigkill sigterm oomkilled
latency: slow p99 milliseconds|leak: memory grow|legacy: old|license: mit apache gpl
load: traffic cpu|localhost: loopback|lockfile: lock pinned|logging: stdout|machine: node host vm
maintenance: window upgrade|malicious: attack|manifest: yaml|memory: ram oomkilled limit heap
metadata: label annotation|metric: prometheus counter gauge|microservice: service
migrate: schema alembic move|mirror: replica proxy cache|misconfigure: wrong setting
monitor: prometheus alert grafana|mount: volume path|multiple: several two|namespace: realm project
network: dns cni firewall|nightly: cron|notification: slack mail alert|notify: slack page mail alert
obsolete: old removed|offline: down disconnected|operator: controller crd|optimise: faster
orchestrate: kubernetes|orphan: owner left|outage: down incident failure|outdated: old stale
overload: load many|override: set instead|overwrite: replace clobber|packet: mtu network
parallel: worker shard|parse: yaml json|partition: shard split|password: secret|patch: update fix
payload: body size|performance: slow fast latency|permission: denied rbac role chmod
persistent: volume disk|pipeline: ci build stage|platform: linux arm amd64|policy: rule
pool: connection size|port: listen bind|postpone: delay later|preempt: priority spot
prerequisite: first need|prevent: avoid block|priority: class preempt|privilege: root sudo admin
probe: readiness liveness health|procedure: runbook steps|process: pid|production: prod live
profile: pprof flame|propagate: sync wait|protocol: http grpc tcp|provision: create terraform
proxy: nginx envoy|publish: release push|purge: delete|quarantine sandbox: isolate
quorum: etcd majority|quota: limit resourcequota|random: flaky|rate throughput: per second
readonly: write|reclaim: free delete|recommend: use|reconcile: loop controller
recreate: delete create|redirect: 301 302|redundant: duplicate replica|refuse: reject denied
regression: broke since|reject: refuse 400 denied|release: version tag|reliable: stable
remedy: fix workaround restart|remote: ssh|render: template helm jinja|replicate: replica copy
repository: repo git|reproduce: steps|request: http call|resilience: retry|resolve: dns fix
resource: cpu memory limit|responsible: owner team contact|restore snapshot: backup
restrict: allow limit|retention: days keep|retry: backoff attempt|revert: rollback
revoke: remove token|rollback: revert previous undo|rotate: renew key secret|router: ingress gateway
runtime: containerd python node|saturate: full cpu|scale: replicas hpa
schema: migration column table|script: bash python|security: cve tls rbac|sensitive: secret mask
sequence: order|serialize: json|session: login cookie|shutdown: sigterm stop grace
signature: sign cosign|simultaneous: parallel|skip: ignore|socket: connection port|spike: surge peak
stale: old cache|standby: replica|startup: start boot readiness|static: fixed
storage: disk volume pvc s3|stuck: hang pending finalizer|subnet: network cidr|surge: spike
suspend: pause|swap: memory|symptom: error|synchronise: sync|syntax: parse|taint: toleration node
teardown: delete cleanup|telemetry: metric trace|temporary: tmp|terminate: kill sigterm
testing: pytest|threshold: above limit|throttle: cpu limit|timestamp timezone: utc
token: secret expire|topology: zone|trace: span otel|traffic: requests load
transaction: commit rollback lock|truncate: cut|trust: ca certificate|unauthorized: 401 token
unavailable: 503 down|unencrypted: plain http|unexpected: wrong|unhealthy: probe fail
unique: duplicate|unresponsive: hang|unschedulable: taint pending cordon|unused: idle
upload: push s3|upstream: proxy|uptime: availability|utilisation: cpu usage|vacuum: postgres
validate: check schema|vendor: third|verify: check test|versioning: tag semver|virtual: vm
vulnerability: cve|warehouse: bigquery snowflake|warmup: cache cold|watchdog: probe
webhook: admission|workaround: instead|workload: deployment pod job
"""
"""What is asked of operations before the colon, what is said after it; one way, as in `instead`."""

KINDS = """
animal pet: dog puppy cat kitten rabbit bunny hamster parrot budgie canary bird horse pony turtle
  tortoise fish goldfish snake lizard gecko guinea ferret hen chicken duck goat sheep cow pig
  hedgehog
sport exercise: football soccer tennis basketball volleyball baseball rugby hockey golf swim run
  jog cycle climb row ski snowboard skate surf yoga pilates gym box judo karate fence badminton
  hike sail dance
instrument: piano guitar violin cello flute drum trumpet saxophone clarinet harp banjo ukulele
  accordion organ bass oboe harmonica keyboard
color: red blue green yellow orange purple violet pink black white brown gray turquoise crimson
  beige navy gold silver lilac lavender
relative family kin: mother father brother sister aunt uncle cousin niece nephew grandmother
  grandfather son daughter husband wife parent sibling twin stepfather stepmother mum dad grandma
  grandpa
food meal dish eat cook: bread soup pasta pizza rice curry salad cake pie stew noodle sandwich
  pancake cheese meat fish vegetable sushi taco roast dumpling lasagne
drink: coffee tea beer wine juice water cocktail milk lemonade
fruit: apple pear banana orange cherry plum peach grape melon mango strawberry raspberry lemon
vegetable: tomato potato carrot onion cabbage pepper bean pea pumpkin spinach cucumber
flower plant: rose tulip lily sunflower daisy orchid lavender violet daffodil fern cactus basil
  tomato tree
tree: oak pine birch maple willow apple cherry
vehicle transport: car bike bicycle bus train plane van truck lorry motorcycle scooter boat ferry
  tram taxi
hobby pastime leisure: paint draw knit sew crochet pottery garden photography read chess dance
  cook bake hike camp fish carve sculpt sing collect quilt calligraphy climb
art craft creative: paint draw sculpt pottery photography knit carve weave print calligraphy
  sketch watercolor quilt ceramic
season: spring summer autumn fall winter
weather: rain snow storm sun wind fog cloud hail heat cold
job profession occupation career: nurse doctor teacher engineer lawyer baker cook chef writer
  artist carpenter electrician plumber programmer developer driver pilot farmer librarian
  architect accountant counselor manager gardener waiter
injure injury hurt wound: sprain break fracture cut bruise burn strain twist ankle wrist knee ache
  bleed
ill sick disease illness: fever flu cold cough asthma allergy migraine infection cancer diabetes
  virus
emotion feel mood: happy sad proud angry nervous afraid excited relieved lonely grateful anxious
  worried glad upset
furniture: table chair sofa bed desk shelf wardrobe bookshelf lamp bench
clothes wear clothing: shirt dress coat jacket hat shoe scarf glove jeans skirt sweater sock
music genre: jazz rock pop classical blues folk metal opera
accommodation lodging: hotel hostel tent cabin cottage apartment camp
building: house church museum library school hospital tower castle hall
subject major study: biology history math physics chemistry psychology art music law medicine
  economics literature engineering
weekday day: monday tuesday wednesday thursday friday saturday sunday
holiday festival: christmas easter thanksgiving halloween
money cost price expense amount: euro dollar pound cent
"""
"""Names before the colon, things after it; a line that begins with spaces goes on."""
