"""What people say in daily life where a question is put in other, often wider words.

It goes one way: who asks about an upbringing is answered with "I grew up in", while "grow" brings
no such word. A line stands here when it is true of ordinary speech, never because one question
needs it.
"""

from __future__ import annotations

DAILY = """
abroad: foreign country|academic: university study exam paper|accent fluent language: speak
accept approve: yes agree|accessory: scarf hat bag ring|accident: crash fall
accommodation: hotel flat room stay|accompany: came together
accomplish: won finish passed prize proud award finally done|accuse: blame said
achievement milestone: won finish passed prize proud award finally|acquaintance: friend met
acquire: get buy|activity: class hike swim paint run dance camp play game walk|address: live home
admire: love great|admit confess instruction notify: told|adolescent: teenager|adopt: took shelter
adore fan fascinate keen: love|adult mature: grown|advantage: good better
advice distinguish explain inform: tell|advise: advice suggest tell|affair: love secret
afford: money pay cost|afraid: scared fear|age: old birthday turn years|agree: yes accept
agreement: deal signed yes|ailment: sick ill pain|aim objective: goal|aircraft: plane
airport flight: fly plane|alarm: wake|album: record music|alcohol: beer wine gin drink
allergic: allergy react|allergy: nuts sneeze swell rash|amateur beginner novice: learn started first
ambition: dream goal hope want|ambulance: paramedic emergency|amount: much|amuse: laugh funny
ancestor: grandfather grandmother|ancestry heritage roots: grandmother grandfather family village
ancient antique classic historic senior shabby vintage: old|angry: cross furious
animal: dog cat cartoon|anniversary: year celebrate wedding|announce: tell news
annoy: irritate bother angry|annual: year every|anticipate: look forward
anxiety: nervous panic worry|anxious: nervous worried
apology condolence guilty pardon sympathy: sorry|appear: came look turned wear hair|applaud: clap
applause: clapped|appliance: oven fridge washer kettle machine|apply: application job
appointment checkup: doctor see visit|appreciate: like thank
apprentice: trainee intern pupil student|argue: fight row quarrel|armchair seat sit: chair
army: soldier|arrange organise strategy: plan|arrest: police|arrival: came landed get|article: write
artistic: paint draw art|ashamed: embarrass guilt|aspire: dream hope want goal|assemble: built put
assignment: homework task|assist: help|assume guess imagine predict reckon suppose suspect: think
astonish: surprised|athlete: run train race swim|attach install: put|attack fight violence: hit
attempt sample: try|attend: join come sign class|attic: roof
attire garment outfit: dress shirt wear suit coat|attitude stance: think believe feel
attraction: tower castle museum bridge like|audience: crowd people came listened|author: write book
automobile: car drive|autumn: september october november|avoid: away
awake bed insomnia nap restless snore: sleep|award: win prize|back: spine
backyard shed weed yard: garden|bad: awful terrible|bake: oven bread cake loaf
ban forbid prohibit: allowed|band: play group music|bank: money account|bankrupt: money closed
barbecue: grill|barefoot: shoes feet|barn: farm|battle: fight war|beach: sand sea coast
beard: shave face|beautiful: pretty lovely|begin embark: start|behave: behaviour
belief: believe god church think|believe: think faith|belong: things bag|bench: sit|beneath: below
benefit: good help better|bereavement: died funeral lost|beside: next near|betray: lie cheat
beverage: drink coffee tea juice|bicycle: bike cycle|bird pilot: fly|birthday: party cake turn
bite: sting|blanket: bed wool|blaze: fire burn|bleed: blood|blind glasses: eye see|blood: bleed
bloom blossom: flower|board match: game play|boat: ship sail|bond: close friend|bone: break joint
book: read novel|boredom: bored|born: birth baby|borrow: lent|boss: manager supervisor
bother: annoy trouble|bouquet: flowers|brand maker manufacturer: made company|brave: courage
break: pause rest damage|breakfast: morning eat|breathe: lung|breed canine: dog puppy
brew: beer coffee tea|bride marry: wedding|brightness glow lamp lantern: light|budget: money cost
build: make construct|bully: mean school|burn firefighter: fire|bury: funeral grave cemetery
business: company firm|cabin: wood lake hut|cafe spill: coffee|call: phone ring
calm: relax unwind soothe|camera pose: photo|camp: tent|campsite: camp tent|cancel: called
candle: light wax|capital civil metropolis urban: city|capture: caught|card: send write game play
career occupation profession: job work|caretaker: looks|cargo freight: load|carriage station: train
cartoon: film draw|carve table: wood|cash fund monetary poor rich tax welfare: money
casualty: hurt died|cat: kitten|catastrophe: disaster|cattle: cow|cautious: careful
cease halt prevent: stop|celebrate: party cheer cake drink famous|cemetery: grave buried
ceremony: wedding church speech|certificate: pass|chair: seat sit|challenge struggle: hard difficult
champion: win title|change: become different|chapter library novel read reserve: book
character personality trait: kind funny shy calm honest|charity: fundraise donate|chat: talk gossip
cheap: bargain|chef: cook kitchen|chess: game board|chew: bite ate|child: kid toddler
childhood: little child young|choir: sing|chore hygiene: clean wash|christmas: tree present
church: chapel steeple|cinema: film see|citizen: passport|class: course lesson|clean: wash tidy
clergy: priest vicar|clever: smart bright|client patient: customer|climate: weather|climb: wall rock
clock: time watch|closest: best near|clothes: wear shirt dress coat|clue discover: found
coastal island ocean peninsula pier: sea|coat dress necklace: wear|coin currency: money euro pound
cold: freeze|collaborate cooperate: together work|collapse: fell down
colleague: workmate crewmate coworker work office|collect: gather|colour: red blue green
comet: star sky|comfort console embrace: hug|commemorate: memory remember|commitment oath: promise
common mutual: both|communicate: talk write sign|commute: work travel cycle
companion: friend partner dog|company: firm business|compete: contest race
competition: contest race tournament|competitor: race won|complain: angry noise
complete: finish done|compliment praise: said great lovely|compose: write music
comprehend: understand|compromise: agree|conceal: hid|conceive: pregnant|concern: worried afraid
concert: play music gig sang choir band|conclude conclusion terminate: end|confidence: sure brave
conflict disagreement dispute quarrel: argue fight
confuse fail flaw incorrect mistake misunderstand offence unfair: wrong|conquer: won climb
construct: build|consult: asked|consume: eat drink|contact: write call touch
container: box bag basket jar bucket|contest: competition prize|continue: go
contribute: gave bring help|convenient: easy near|conversation: talk chat spoke|convince: persuade
cope: manage|correct moral suitable: right|correspondence: letter wrote email|cost: price pay pound
costume: dress wear|cottage: house garden|couch: sofa|council townsman: town|counsel: advice
counsellor: therapist|countryside: village field farm|couple: pair together|courage: brave dare
courier: parcel deliver|course: class lesson|court: judge|crack: break split|craft: make hand
crash: accident|creative: paint draw write craft|creature: animal bird dog|crew squad: team
crime: steal police|critic: wrote paper said bad|crop: harvest grow wheat|crowd folk: people
cruel refer selfish: mean|cry: weep tear sob|cuisine culinary: cook food bake dish recipe
cure: better pill|curious: wonder|custody: daughter son weekends|custom: tradition buy client order
cycle cyclist: bike ride|daily: day every|dairy: milk cheese|damage fracture pause: break
damp: wet mould|dance: step ball|danger: risk|darkness: night
date: relationship girlfriend boyfriend|dawn: morning early|deadline: date|deadly murder: killed
deaf: hear sign|debate: argue discuss|debt: owe money|decade: ten years|deceased: died dead passed
deceive: lied|decide: choose mind|decorate: paint light flower picture|decrease: less
defeat: beat won|defective faulty malfunction: broken work|degree: university study
delay: late postpone|delicious: tasty good
delighted glad jolly joyful merry overjoyed satisfied: happy|deliver: brought
democratic election: vote|demolish descend: down|demonstrate display programme: show
depart departure: leave|depict feature: shows|depressed: sad low|desert: sand|deserve: earn
desire: want wish|desperate: badly|dessert: cake ice pudding|destination: go trip fly
destroy: broke burn|deteriorate inferior worsen: worse|device gadget: phone laptop camera
devour digest nourish nutrition swallow: eat|diagnose: illness doctor says|diagnosis: doctor said
diary: journal write|dictionary saying: words|die: death dead pass bury|diet: eat food
difficulty: hard problem|dine: dinner restaurant|dirty: mess mud|disability: wheelchair deaf blind
disadvantage drawback harmful horrible misbehave naughty severe trauma unhealthy unlucky: bad
disagree: argue|disappear vanish: gone lost|disappoint: sad let
disapprove enemy rebel revolt rivalry: against|disaster: terrible fire flood|discipline: strict
disclose: told said|discount: cheap|discuss: talk|disguise: costume mask|disgust: horrible
dislike: hate stand|dismantle: took apart|dismay distress: upset|dismiss: fire sack
dispose toss: threw|distance: far mile kilometre metre|distant exotic remote: far
disturb loud: noise|ditch meadow pasture: field|diversion: fun|divorce: separate split left
document: letter paper form|dog: puppy hound|doll: toy|domestic: home|dominate lottery winner: won
donate: give charity|doubt hesitate: sure|drama: play film|draught: cold window|draw: sketch pencil
dream: sleep want hope|drive: car road|driver: drive car van|drought: dry rain|drown liquid: water
duration: hours weeks months long|dusk: evening|duty interview mission task unemployed: job
dwelling: live house flat home moved|eager: excited|ear listen: hear|early: soon
earn: money pay salary wage|earthquake: quake|easter: egg|easy: simple
easygoing soothe tranquil: calm|eccentric: odd|educate: teach|effect: result|elderly: old aged older
elegant stunning: beautiful|elevator: lift|email: write mail|embarrass: blush awkward
embroider: needle|emigrate: moved left|emotion: happy sad cry proud nervous
employ: hire job work boss company firm office|employee staff: worker team colleague
enclosure: fence|encounter: met saw|encourage: support push cheer said|end: finish stop
energetic: energy|engrave: name letters|enjoy: like love fun|enlist: army|enormous: big huge
enrol: signed course|ensure: make|entertain: play show|enthusiasm: love excited|entrance: door gate
envious jealousy: jealous|equine: horse pony|era: years|escape: ran away|establish: set started
esteem: respect|evaluate: test|evidence: proof clear|ex: divorce separate|exam: test pass study
examine: look check
exceptional extraordinary good impress magnificent spectacular splendid superb: great|excite: thrill
excursion outing: trip went day|exercise: fitness run gym swim walk|exhaust fatigue: tired
exhibition: show gallery museum|exile legacy omit: left|expand grow: bigger
expect: pregnant baby due|expedition: trip climb|expense: cost money dear
expert specialist: doctor teacher knows|explore: walk see|explosion: bomb burst|export: sell
expression phrase: said words|eye: optician|eyesight: eyes glasses|fabric: cotton wool cloth
facility: centre|factory: plant mill|failure: fail|faint: fell dizzy|fake: false
fall: love romance slip trip|familiar unaware unfamiliar: know|famine starve: hungry
famous reputation: known|fantasy imaginary nightmare: dream|far: distance mile|farm: cow field
fatal perish tragedy: died|favourite: best love prefer|fear phobia: afraid scared
feast: meal banquet dinner|fee: cost pay|feed: food eat|feline: cat kitten|female: woman girl
ferry yacht: boat|festival: music summer|fetch: got bring|feud: fight|fever: temperature
fiance: fiancee engaged|fiction: novel|field: meadow|film: movie watch cinema video
filthy pollution: dirty|finally: last|finance financial: money bank pay loan saving|find: discover
fine penalty: pay|finish: end done complete|fire: burn flame|firm startup: company business
fish: catch|fitness: exercise gym run|flat: apartment room place|flatmate: roommate housemate
flavour: taste|flee: ran|flock: birds sheep|flood: water burst|foe: enemy|fog: mist
fond: like love favourite|footwear: shoes boots|forecast: weather rain|foreign: abroad overseas
forename surname: name|forest: woods tree|former: ex used|fortnight: two weeks
fortunate: lucky luck money|founder: start found set|fraction proportion: half third
fragrance odour perfume scent: smell|frail: weak|fraud: cheat|frequency: every week daily
frequent: often|fridge: kitchen|frightening terrified: scared|frustrate: annoyed|fun: enjoy laugh
fundraise: raised sale|funeral: buried died|fur haircut: hair|furnish: chair table sofa bed
furniture: table chair sofa bed|gallery: art exhibition|gamble: bet
game pastime pretend recreation script toy: play|garbage: rubbish bin|garden: plant grow
gathering: party meet dinner reunion|generous: give|gentleman: man|genuine reality: real
germ malady: ill|getaway vacation: holiday trip beach week|ghost: haunt
giant huge size spacious: big|give: present gift|glove touch: hand|goal: aim dream
gossip testimony urge: said|government: minister|grade: mark|graduate: degree university finished
grandchild: grandson granddaughter|grandparent: grandmother grandfather grandma grandpa
grant: fund money|grateful: thank appreciate|gratitude: thank|greenhouse: grow|greet: hello card
grieve mourn: sad died miss|grocery: shop food market|groom: brush wash|growl puppy: dog
grumpy: moody|guardian: parents|guest: visitor come|gymnasium workout: gym
habit: always usually every morning|habitat inhabitant lifestyle settle: live|hail umbrella: rain
hair scrape: cut|halloween: costume pumpkin|handicraft: knit sew carve|handmade: made myself
handwriting: written letter|handy: useful|happy: joy delight glad thrilled|harbour: port boat sea
hard: difficult|hardship: hard poor|harsh ordeal: hard|harvest: pick crop|hasty: quick
hat: wear head|hate: dislike stand|hatred: hate|headache: migraine head|headline: newspaper
heal: recover better|healthcare: doctor hospital|healthy: fit|hear obey: listen
heart: cardiologist cardiac|heartbroken: sad cried left|heat: hot|height: tall metre high
help: support hand|hidden: inside secret|hike: walk mountain trail|hilarious joke: funny laugh
hire: job employ took|hit union: strike|hobby: take started learn class paint knit climb
holiday: christmas easter|homeland: country hometown native|homesick: miss home|hometown: grow born
homework: school|honest: truth|honeymoon: wedding trip|honour: memory remember proud
hope: wish dream|horrify startle: shock|horse: ride pony|hospital: ward clinic emergency
host: guest stay|hostile outraged punish resentment scold temper: angry|hotel: stay room
house: home cottage bungalow flat|household: family home|humble: modest|humorous: funny joke
hungry: starve|hunt: shoot|hurdle setback: problem fail lost broke|hurricane thunder: storm
hurry: rush|husband: married|idea: plan think|identical: twins|illegal: law
illness: disease condition diagnose|illustrate: drew|imitate: copy like|immense: huge
immigrant: moved came country|impact: change effect|impatient patience: wait|important: matter bring
improve: better progress|inaugurate: open|incident: happened accident|income: earn money salary
increase: rise|incredible: amazing|indoor interior: inside|infant: baby|infection: fever antibiotics
inflate: air|influence: inspire|ingenious intellectual intelligence smart: clever
ingredient: flour sugar egg butter salt|inherit: left grandmother|initial: first start idea
injure: break hurt sprain twisted|innocent naked worthless: nothing|innovation renew: new
insane: mad|insect sting: bee wasp|insist: said must|inspect: look check inspector passed
inspire: idea motivate|instrument: play music|insult: rude|intense strength: strong
intent: want plan going|international: country world|interpret: means|interrupt: stopped
intimate: close|introduce: met told|invade: came|invent: made|inventor: invented made
invest: money put|investigate: look find|invitation: card come party asked
isolated privacy solitary: alone|itch: skin|itinerary: plan trip|jail: prison|jealous: envy
jewel: ring|jewellery: ring necklace|job: work position|journal: diary|journalist: paper reporter
journey: trip travel drive|judge: contest prize court|jungle: forest|keep rescue: save
keepsake: kept|kid: child|kind: nice gentle gave|kindergarten: nursery children|kiss: hug embrace
kitten: cat|knee: leg joint|knit: wool scarf|knowledge: know learn|labour overtime project: work
lack: without|lad: boy|lady: woman|lake: water swim|landlady: rent|landlord tenant: rent flat
landmark sight: tower castle museum bridge|landscape: mountain field view
late: delay died dead passed|laugh: joke funny|launch: open start|laundry: wash clothes
law: legal lawyer|lawn: grass mow|lawyer: law legal court|lazy: idle|leak: drip water|leap: jump
learn: lesson course|leash: walk dog|leather: shoes|leave: go depart|lecture: university talk
legend: story|leisure: free weekend|lend: borrow loan|length: long metre|lesson: course class
letter: write post envelope|liberty: free|lie: untrue true|lifeguard: pool beach|limb: leg arm
limp: leg|linguistic translate: language|literary: book read write novel poem
litter: rubbish kittens puppies|lively noisy uproar: loud|livestock: cow sheep pig|loaf: bread bake
loan: bank borrow|locate: found place hall park|lodge motel overnight: stay|lonely: alone miss
look meet visible witness: see|lorry: truck|lose: missing misplace defeat way|luck: lucky
luggage: suitcase bag|lullaby: sing sleep|lung: breath|luxury pricey: expensive|lyric: word song
machinery: machine|mad: crazy angry|magazine: article|magic: trick|maintain persist: keep
makeup mask: face|male: man boy|manor: house|mansion: house big|manuscript: book wrote
map: route way|marathon: run race kilometres|march: protest|market: stall sell|mascot: bear
masterpiece: painting|matter: important|mayor: town council|meal: dinner lunch ate|mean: symbol
measure: size long|medal: win gold|medic physician: doctor|meditate: calm quiet|melody: tune song
melt: ice|memorial monument: statue|memorise: learn remember|menace peril risk threat: danger
mend: fix repair|mentor: teacher coach taught|menu: restaurant|merchant: shop sell
mercy polite thoughtful: kind|mess: dirty untidy|message: text write letter|method technique: way
midday: noon lunch|midnight: night twelve|midwife: birth|military: army soldier|mime: act
miner: coal|miniature minor shrink slight tiny: small|miracle: believe
miserable sorrow tragic unfortunate: sad|misfortune: bad luck lost
mishap: accident fell broke slipped|mislay misplace: lost|miss: long lonely gone lost
mock tease: laugh joke|modest timid: shy|monarch royal: king queen|monastery: monk
monthly weekly yearly: every|mood: happy sad|mortgage: loan bank house|mosque: pray
motivate: inspire push want|motorbike: bike motorcycle|motorcycle: motorbike bike
mountain: climb peak summit|movie screen: film|mug: cup|muscle: gym pulled|museum: exhibit gallery
mushroom: forest pick|music: play song band|mystery obscure: unknown|name: call title
nationality: born country|nausea plague poison vomit: sick|neat: tidy|neighbour: door next street
nephew: niece aunt uncle|nervous: worried scared|nest: egg bird|network social: friends
newborn: baby born|news: tell hear|newspaper: paper press|nickname: call name
noble proficient skilful tasty worthwhile: good|noise: sound loud|nonsense ridiculous: silly
normal: usual|notice: see spot|number quantity: many|nursery: children plants|oblige: must
observe: see watch|obstacle: problem|obtain: get|occasion: time party|occur: happened
odd peculiar suspicious weird: strange|offer: propose|office: desk work
offspring: child son daughter babies|operate: surgery run|opinion: think view say
opponent rival: against beat|optician: glasses eyes|optimistic: hope good
orchard: apple tree fruit pear|orchestra: play music violin|order: ask buy|origin: come grow first
ornament: glass|orphan: parents died|outage: power electricity|outcome: result won
outdoor: hike camp garden walk park outside|outskirts: edge|oven: bake|overcome: past
overseas: abroad|overwhelm: stress much|owe: debt|owner: bought belongs|pack: bag suitcase
painful uncomfortable victim: hurt|paint: picture colour|palace: castle|panic: afraid
parade: street beautiful|parcel: package post|parish sacred: church
park pedestrian pilgrimage stroll wheelchair: walk|partake participate: join sign play compete
partner: girlfriend boyfriend wife husband together|party: celebrate guest|pass: exam
passenger: train bus flight seat|passion: love enjoy|passport: border visa|pastry: cake pie
path: trail way|pavement: street|peaceful shy silence silent whisper: quiet|peak: top mountain
pension: retire|perform: play show stage sang|permanent reliable typical: always|permit: let allowed
persuade: convince talk|pessimistic uneasy: worried|pet: dog cat animal|petition treaty: signed
phone: call ring|photo photograph: picture camera|physical: body gym run exercise
picnic: park basket|picture: photo image|piece: bit|pill: tablet medicine dose|pillow: bed
pioneer premiere: first|pipe: plumber leak|plan: idea going|plant: grow seed
playground: children swing|pleasant: nice|pleased: happy glad|pleasure: enjoy love|plumber: pipe
poem: poetry write|poetry recite: poem|police: officer arrest|polish: shine
popular prestigious prominent renowned: famous|porch: door|portion: part|portrait: picture face
portray: painted|position: job post role|possess: got things bag|post: mail send|postcard: wrote
postman: letter|postpone: delay late later moved put|pottery: clay pot|poverty: poor
power: electricity strong|practise: train rehearse every|pray: church god|precious: dear
precipitation: rain snow|precise: exact|prefer: favourite rather like
pregnancy: pregnant baby expect due|prepare: ready cook|present: show gift|preserve: keep jam
pressure tension: stress|price: cost pay pound|priest: vicar church|principal: head|prison: jail
prize: win award|probable: likely|problem: trouble wrong|process: first walked|profit: money earn
progress upgrade: better|promise: vow swear|promote: boss|pronounce word: say
propose: marry ring asked yes|prosper thrive: well|protect: save guard careful|protest: march
proud: pride|proverb: says|province: region|pseudonym: name called|psychologist: therapy
pub: bar beer|publish: book print|punctual: time|pup: puppy dog|purchase: buy get|pursue: study want
puzzle: solve pieces|qualification: degree certificate exam|qualify: exam certificate
queue: wait line|quick speed: fast|quiet: silent|quilt: sew|quit: leave notice resign stop gave
race: run|rainbow: colours|raise: collect money brought|ranch: horses|rank spot: place|rare: seldom
rash: skin red|react reaction: cry laugh happy shout surprise|recall recollect: remember
receipt: paid|receive: get given|reception: party|recipe: cook bake dish|recognise: knew
recommend: suggest tip read try|reconcile: talked|record: album tape|recover: better heal home
recovery: better heal|recruit: joined|recuperate: better home|refugee: fled war|refurbish: new paint
refuse: decline reject|region: area|regret: sorry wish|rehab rehabilitation: physio recover
rehearse: practise|relative: family cousin aunt uncle grandmother nephew niece|relax: calm rest
religion: church pray god faith|relocate: move|reluctant tempt unwilling: want|remain: stay left
remark: said great|remedy: medicine therapy pill doctor cure|remove seize snatch: took
renovate: paint repair new kitchen roof|rent: landlord lease let pay month|repair: fix mend restore
reply: answer write|represent symbol: mean stand|reptile: snake lizard turtle|request: ask
require: need|reschedule: moved date|resemble: look like|residence: live house flat home moved lives
resign: quit notice leave|resolution: year promise|resolve: solved|resort: hotel
respond: said answer|rest: break relax sleep sit|restaurant: eat table|result: score end
retail: shop|retire: pension stop work|retrieve: back got|return: back come home
reunion: meet together|reunite unite: together|reveal: tell show said|revenge reverse: back
review: wrote paper said|reward: prize got|riddle: puzzle|ring: finger
ritual routine: every always morning|river: water stream|rodent: mouse rat|roommate: flatmate live
round: circle|route: way road|rubbish: bin|rude: impolite mean|ruin: broke spoilt|rumour: heard
run: jog race|rural: village|rush: hurry|rust: metal|sack: fired|sacrifice surrender: gave
sad: cry tear grief|salad: tomato|salary: wage pay earn month|sanctuary: shelter animals
save: money rescue|scare: afraid frightened|scenery scenic view: mountain lake see
schedule: time plan|scholar: study university|scholarship: study university money
school: pupil class|score: goal point|scream: shouted|sculpture: statue carve clay|search: look hunt
seaside: sea beach|season: summer winter spring autumn|secret: hide told nobody|see: watch look
select: chose picked|sell: sale|seminar: course|sensitive: feel|separate: apart|series: show watch
sew: needle dress|shame: embarrassed sorry|shape: round square|sheet: paper bed
shelter: dogs cats homeless|shift: night work|ship: boat sent post|shiver: cold|shoe: wear foot
shop: store buy|shore: beach sea|shortage: enough|shrub: bush|siblings: brother sister
sick: ill poorly unwell|sightsee: saw museum castle|signify: means stands|silverware: spoon
similarity: both like|singer: sings voice|sketch: draw|ski: snow slope|skill: good play
skin: dermatologist|skyscraper: tower|sleep: night bed|slender slim: thin|slip: fall
smell: scent stink|snack: bite eat|snow: ice winter|sob: cry|sober thirst thirsty: drink
society: club|sofa: couch|soil: earth ground garden|soldier: army war|solitude: alone quiet
solution: fix answer|solve: fix|song: sing tune|sorry: apologise|sound: noise hear|sour: lemon
souvenir: bring|special: unusual|spectacles: glasses|spectator: watch crowd|speech: said talk
spend: paid cost|spice: pepper cinnamon cumin ginger|spoil: broke|sponsor: fund pay
spontaneous: suddenly|spouse: wife husband|sprain: ankle twisted|spring: april may march
squirrel: tree|stable: horse|stage: perform|stairs: steps|stall: sell market|stare: look
start: begin|statue: stone|steal: theft burgle rob|steep: hill|stew: meat|stitch: sew wound
stop: quit end|storey: floor|storm: wind thunder|story: tale tell|strange: odd weird
stranger: unknown man woman|stray: street cat dog|stream valley: river
stress: pressure overwhelm hard tired|strict: rules|strike: union|stroke: heart|structure: building
studio: workshop|study: learn university|stumble tumble: fell|stupid: silly foolish|submit: sent
substance: stuff|suburb: outside|succeed: manage passed won made|success: win well|suffer: pain ill
suggest: advise idea|suitcase: bag|summer: june july august|sunlight sunny: sun|superstition: luck
supervise: watch|supper: dinner|support: help back|surf: wave|surgeon: operate
surgery: operate surgeon|surprise: shock unexpected unannounced suddenly|surround: around
survive: alive|swap transform: changed|sweater: wool|sweet: sugar cake|swelling: swollen
swim: pool water|swing: playground|symptom: feel pain|tale: story told|talent: good play gift
tall: high metre|taste: flavour like sweet|tattoo: ink|teach: lesson show
teacher: tutor instructor coach trainer professor|team: club side|technology: computer
teenager: teen youth adolescent|television: tv telly watch|telly: tv television
temperature: degrees cold hot|tender: soft|term: word called|territory: land|textile: wool fabric
thankful: grateful|theatre: play stage|therapy: therapist counsel session|thief: stole
thrilled: excited happy|throne: king|ticket: book fare|tidy: clean|tired: sleep exhausted
title: called name|toddler: baby little|tolerate: stand|tool: hammer drill|tooth: dentist
tour: travel visit|tourist: visit trip|tournament: won match|toxic: poison
tradition: every year always|trail: walk path|train: rail station practise exercise taught learn
trainer: coach shoes|transmit: send|transport: car bus train van bike carry lift|treasure: gold
treatment: medicine therapy pill doctor|tremble: shake|trial: test court|tribute: memory
trick: magic fool|trip: travel holiday journey|trophy: cup win|trouble: problem difficult
trousers: jeans|truthful: honest|tuition: fee course pay|tune: song melody|tutor: lessons
twin: sibling brother sister|twist: ankle|uncertain: sure know|underground: tube train
universe: stars|university: study college|unknown: mystery anonymous|unpleasant worse: bad
unreliable: late|untidy: mess|unusual: strange odd|unwell: sick ill|unwind: relax calm
upbringing: grew child parents|upcoming: next soon|upset: cry angry|usually: often always
utensil: spoon knife fork pan pot|vacant: empty|vaccine: jab injection|vague: clear|vain: proud
valuable: worth money|van: drive|vegetable: grow garden plant tree|vegetarian: vegan meat
vehicle: car van truck bus train bike drive parked|venture: business|venue: place hall park
verdict: court said|vessel: boat ship|vet: animal|veteran: war army years
veterinarian veterinary: vet|vicar: priest church|victory: win|video: film record|vision: eyes
visit: come see stay|vocalist: sings|volcano: lava|volunteer: help charity|vote: election
voyage: sail ship|wage: pay earn|wait: queue|waiter: serve|wake: morning|walk: stroll|wander: walked
war: soldier army|warehouse: store|warning: careful said|watch: see look|wealth: rich money
weapon: gun knife rifle|wear: dress clothes|weather: rain sun|weave: loom|wedding: marry bride dress
weekend: saturday sunday|weep: cried|weigh: heavy|weight: kilo heavy|wet: damp soak
widow: husband wife died|width: wide|wife: husband spouse married|wildlife: bird fox deer owl
win: victory first|winter: december january february|wisdom: wise know|witty: funny|wizard: magic
woodland: trees|woodwork: wood carve|workplace: office desk shop|workshop: studio bench
worldwide: world|worry: afraid nervous anxious|worship: church pray|wound: cut scar|wreck: broken
wrong: mistake|yell: shout|yoga: stretch|youngest: baby small|youngster: child boy girl
youth: young teenage
"""
"""What is asked before the colon, what is said after it; separated by bars and by lines."""
