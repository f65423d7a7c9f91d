"""Words of daily life: what people say where a question is put in other, often wider words.

`FAMILIES` and `KINDS` go on with those of `lexicon`. `INSTEAD` goes one way: who asks about an
upbringing is answered with "I grew up in", while "grow" brings no such word. A line stands here
when it is true of ordinary speech, never because one question needs it.
"""

from __future__ import annotations

FAMILIES = """
act actor actress|adopt adoption|advertise advert advertisement|amaze amazing|arrive arrival
athlete athletic|attend attendance attendee|bee beekeeper beekeeping hive|boat boating
build builder|burn burner|care carer|carpenter carpentry|chemist chemistry|clean cleaner
climb climber|coach coaching|collect collector collection|comfort comfortable|compose composer
conduct conductor|cook cookery|craft craftsman|deaf deafness|design designer
dine dinner|direct director direction|dive diver|drum drummer|economy economic economist
edit editor edition|elect election electoral|electric electrician electricity
embarrass embarrassment|entertain entertainment|environment environmental
exhibit exhibition|farm farming|fish fisherman angler|flood flooding|forget forgetful
forgive forgiveness|garden gardener|glass glazier glaze|graduate graduation|guitar guitarist
guide guidance|hair hairdresser haircut|hike hiker|history historic historical historian
horse horseback|hunt hunter|illustrate illustrator illustration|immigrate immigrant immigration
inherit inheritance heir|interview interviewer|invent inventor invention|invite invitation guest
jewel jewellery jeweller|journal journalist journalism|judge judgement|knit knitting
landscape landscaping|library librarian|lodge lodger|logic logical|magic magician magical
manage manager management|marry marriage|mechanic mechanical|medicine medical medication
mental mentality|minister ministry|mountain mountaineer mountaineering|nature natural
novel novelist|nurse nursing nursery|optimist optimistic|organise organiser organisation
parent parental parenthood|perform performer performance|philosophy philosopher
physio physiotherapist physiotherapy|piano pianist|pilgrim pilgrimage|plan planner
politics political politician|post postal postman|potter pottery|print printer
produce producer production|program programmer|promise promising|promote promotion
psychology psychologist psychological|puppet puppeteer|race racer|read reader|rescue rescuer
research researcher|restore restoration|retire retirement|ride rider|row rower|run runner
sail sailor sailing|sew seamstress|shop shopper shopkeeper|ski skier|skate skater
sleep asleep sleepy|smith smithy forge blacksmith|snow snowy|spirit spiritual
stage staging|storm stormy|surf surfer|tailor tailoring|taste tasty|tattoo tattooist
technique technical technician|theatre theatrical|therapy therapist
think thought|translate translator translation|travel traveller|upset upsetting|value valuable
violin violinist|walk walker|wash washer laundry|wave wavy|wed wedding|weld welder|wine winery
woman womanhood|wood wooden|wool woollen|work worker|wrap wrapping|yoga yogi
portugal portuguese|spain spanish|france french|germany german|italy italian|ireland irish
scotland scottish scot|wales welsh|england english|poland polish|sweden swedish|norway norwegian
denmark danish|finland finnish|greece greek|turkey turkish|japan japanese|china chinese
india indian|mexico mexican|egypt egyptian|russia russian|brazil brazilian|hungary hungarian
austria austrian|netherlands dutch holland|switzerland swiss|iceland icelandic|morocco moroccan
vietnam vietnamese|thailand thai|korea korean|europe european|africa african|asia asian
america american|canada canadian|australia australian
"""
"""Separated by bars and by lines."""

INSTEAD = """
abroad: foreign country|academic: university study exam paper|accept: yes agree
accessory: scarf hat bag ring|accident: crash fall|accommodation: hotel flat room stay
accomplish: won finish passed prize proud award finally did done
achievement accomplishment milestone: won finish passed prize proud award finally
acquaintance: friend met|acquire: get buy
activity: class hike swim paint run dance camp play game walk|address: live home|admire: love great
adolescent: teenager|adopt: took shelter|adore fan: love|adult: grown|advantage: good better
advice: should tell|advise: advice suggest tell|afford: money pay cost|afraid: scared fear
age: old birthday turn turned years|agree: yes accept|ailment: sick ill pain|aim: goal|alarm: wake
album: record music|allergic: allergy react|amateur beginner novice: learn started first
ambition: dream goal hope want|ambulance: paramedic emergency|amount: much|angry: cross furious
animal: dog cat|anniversary: year celebrate years wedding|announce: tell news told
annoy: irritate bother|anticipate: look forward|anxiety: nervous panic worry|apology: sorry
appliance: oven fridge washer kettle machine|apply: application job|appreciate: like thank
apprentice: trainee intern pupil student|argue: fight row quarrel|army: soldier|arrest: police
arrival: came arrive landed|arrive: come get land|article: write|artistic: paint draw art
ashamed: embarrass guilt|aspire aspiration: dream hope want goal|assemble: built put|assist: help
assume suppose: think|athlete: run train race|athletic: run swim race train|attack fight: hit
attempt: try tried|attend: join come sign class|attire outfit garment: dress shirt wear suit coat
attitude stance: think believe feel|audience: crowd people|author: write book wrote
automobile: car drive|autumn: september october november|award: win prize|back: spine
bad: awful terrible|band: play group music|bank: money account|barbecue: grill|barn: farm
beach: sand sea coast|beard: shave|beautiful: pretty|beauty: beautiful lovely
bed nap dream insomnia snore: sleep|begin: start|belief: believe god church think
believe: think faith|belong: own|bench: sit|benefit: good help better
beverage: drink coffee tea juice|bird: fly|birthday: party cake turn|bite: sting|blaze: fire burn
bleed: blood|blossom bloom: flower|boat: ship sail|bone: break joint|book: read novel
born: birth baby|boss: manager supervisor|brand maker manufacturer: made company|brave: courage
break: pause rest|breakfast: morning eat|breathe: lung breath|breed canine: dog puppy
brew: beer coffee tea|bride marry: wedding|brightness: light|broken: break damage|budget: money cost
build: make construct|burn: fire|bury: funeral grave cemetery|business: company firm|cafe: coffee
call: phone ring|calm: relax unwind soothe|camera: photo|camp: tent|campsite: camp tent
cancel: off called|card: send write game play|career profession occupation: job work|carve: wood
cat: kitten|cause: because|celebrate: party cheer cake drink|ceremony: wedding church speech
certificate: pass|chair: seat sit|challenge: hard difficult|champion: win title
change: become different|charity: fundraise donate|chat: talk gossip|cheap: bargain
checkup appointment: doctor see visit|chef: cook kitchen|chess: game board|child: kid toddler
childhood: little child young|choir: sing|christmas: tree present|church: chapel steeple
citizen: passport|class: course lesson|clean: wash tidy|clever: smart bright
client patient: customer|climate: weather|climb: wall rock|clock: time watch
coin currency: money euro pound|cold: freeze|collaborate cooperate: together work
colleague: workmate crewmate coworker|collect: gather|colour: red blue green
comfort console: hug there|commemorate honour: memory remember|commute: work travel cycle
companion: friend partner dog|company: firm business|compete: contest race
competition: contest race tournament|complete: finish done|compose: write music
composer: wrote music|comprehend: understand|compromise: agree|conceal: hid hidden
concert: play music gig|confess admit notify: told|conquer: won climb|consequence: so then
construct: build|consume: eat drink|contact: write call touch|container: box bag basket jar bucket
contest: competition prize|continue: go|conversation: talk chat spoke|convince: persuade
correct: right|correspondence: letter wrote email|cost: price pay pound|costume: dress|couch: sofa
council: town|counsellor: therapist|couple: pair together|courage: brave dare|course: class lesson
court: judge|crack: break split|craft: make hand|crash: accident|creative: paint draw write craft
creature: animal bird dog|crime: steal|critic review: wrote paper said|criticise: said bad
crop: harvest grow wheat|cry: weep tear sob|culinary cuisine: cook food bake dish recipe
custom: tradition|customer: buy client order|cycle cyclist: bike ride|daily: day every
damage: break broken broke|damp: wet mould|dance: step ball|danger: risk|darkness: dark night
date: relationship girlfriend boyfriend|dawn: morning early|deadline: date until by|deaf: hear sign
debt: owe money|decade: ten years|deceased: died dead passed|decide: choose mind|decorate: paint
decoration decor: paint light flower picture|decrease: less|defeat: beat won
degree: university study|delay: late postpone|deliver: brought|demolish: down|depart: leave
departure: leave left|destination: go trip fly|destroy: broke burn|deteriorate worsen: worse
device gadget: phone laptop camera|diagnose: illness doctor|diary: journal write
die: death dead pass bury died|diet: eat food|difference: other|difficulty: hard problem
dirty: mess mud|disappoint: sad let|disclose: told said|discount: off cheap|discover locate: found
discuss: talk|dislike: hate|dismantle: took apart|dismiss: fire sack
dispute conflict quarrel: argue fight|distance: far mile kilometre|divorce: separate split left
document: letter paper form|dog: puppy hound|doll: toy|donate: give charity gave|doubt: sure
draw: sketch pencil|dress clothes coat necklace: wear|drive: car road|driver: drive drove car van
drown: water|duration: hours weeks months long|dusk: evening|early: soon
earn: money pay salary wage paid|earthquake: quake|easter: egg|easy: simple|effect: result
elderly: old aged|election: vote|email: write mail|embarrass: blush awkward
emotion emotional: happy sad cry proud nervous|employ: hire job
employee staff: worker team colleague|employer: boss company firm office
encourage: support push cheer said|end: finish stop|engrave: name letters|enjoy: like love fun
entertain: play show|equine: horse pony|evidence: proof|ex: divorce separate|exam: test pass
examine inspect: look check|excite: thrill|excursion outing: trip went day
exercise: fitness run gym swim walk|exhibition: show gallery museum|expect: pregnant baby due
expedition: trip climb|expense: cost money|expensive: cost dear
expert specialist: doctor teacher knows|explosion: bomb burst|eye: optician|factory: plant mill
fail: wrong did failed|failure: fail|fall: love romance slip trip|famous: known|far: distance mile
farm: cow field|favourite: best love prefer|fear: afraid scared|feast: meal banquet|fee: cost pay
feed: food eat|feline: cat kitten|female: woman girl she|fetch: got bring|fever: temperature
fiance: fiancee engaged|field: meadow|film: movie watch cinema video|finally: last
financial finance: money bank pay loan saving|find: found discover|finish: end done complete
fire: burn flame|firm startup: company business|fish: catch|fitness: exercise gym
flat: apartment room place|flatmate: roommate housemate|flight airport: fly plane|flood: water burst
fond: like love favourite|forbid ban: allowed|foreign: abroad overseas|forest: woods tree
former: ex before|fortnight: two weeks|founder: start found started set|fracture pause: break
frequency: every week daily|frequent: often|fun: enjoy laugh|furnish: chair table
furnishing furniture: table chair sofa bed|gallery: art exhibition|game toy: play|garden: plant grow
gathering: party meet dinner reunion|generous: give|gentleman: man|ghost: haunt|give: present gift
glasses blind: eye see|goal: aim dream|good: great|government: minister|grade: mark|graduate: degree
grandparent: grandmother grandfather|grant: fund money|grateful: thank appreciate|gratitude: thank
greenhouse: grow|groom: brush wash|grow: bigger|guest: visitor come
habit: always usually every morning|hair: cut|haircut: hair|halloween: costume pumpkin
happy: joy delight glad thrilled|harbour: port boat|hard: difficult|harvest: pick crop
hat: wear head|hate: dislike stand|headache: migraine head|heal: recover better|hear: listen
heart: cardiologist cardiac|heat: hot|height: tall metre high|help: support hand
heritage ancestry roots: grandmother grandfather family village|hidden: hide inside|hide: secret
hike: walk mountain|hire: job employ|hobby: take started learn|holiday: christmas easter
homeland: country hometown native|hometown: grow born|homework: school|honest: truth
honeymoon: wedding trip|hope: wish dream|horse: ride pony|hospital: ward clinic emergency
host: guest stay|hotel: stay room|house: home cottage bungalow|hungry: starve|hunt: shoot
hurry: rush|idea: plan think|illness: disease condition diagnose|illustrate: drew
immigrant: moved came country|impact: change effect|important: matter|improve progress: better
improvement: better progress|incident: happened accident|income: earn money|increase: more rise
infant toddler: baby|influence: inspire|inform explain: tell|ingredient: flour sugar egg butter salt
inherit: left grandmother|injure: break hurt sprain broke|inside: in|inspire: idea motivate because
install attach: put|instrument orchestra: play music|intelligence: clever|interrupt: stopped
inventor: invented made|invest: money put|investigate: look find|invitation: invite card
invite: come party asked|island: sea|itinerary: plan trip|jail: prison|jealous: envy
jewellery: ring necklace|job: work position|joke: funny laugh|journal: diary
journalist: paper reporter|journey: trip travel drive|judge: contest prize court|keep: save
kind: nice gentle|kindergarten: nursery children|kiss: hug embrace|kitten: cat|knee: leg joint
knit: wool|knowledge: know learn|lad: boy|lady: woman|lake: water swim
landmark sight attraction: tower castle museum bridge|language fluent accent: speak
late: delay died dead passed|laugh: joke funny|law: legal lawyer|lawn: grass mow|lawyer: law legal
lazy: idle|leak: drip water|learn: lesson course|leash: walk dog|leave: go depart|lend: borrow loan
length: long metre|lesson: course class|letter: write post envelope|lie: untrue true|listen: hear
literary: book read write novel poem|livestock: cow sheep pig|loaf: bread bake|lonely: alone miss
lorry: truck|lose: lost missing misplace defeat|lost: way|loud: noise|luck: lucky
luggage: suitcase bag|lyric: word song|magazine: article|magic: trick|makeup: face|male: man boy he
malfunction faulty defective: broken work|map: route way|marathon: run race|march: protest
market: stall sell|match board: game play|matter: important|mayor: town council|mean: symbol
measure: size long|medal: win gold|meet look: see|meeting: meet|melody: tune song|memorise: learn
mend: fix repair|mentor: teacher coach taught|mess: dirty untidy|message: text write wrote letter
method technique: way how|midday: noon lunch|midnight: night twelve|midwife: birth
mishap: accident fell broke slipped|miss: long lonely|mistake: wrong|mock tease: laugh joke
monthly: month every|monument memorial: statue|mortgage: loan bank|mosque: pray
motivate: inspire push|motivation motive: because want|motorbike: bike motorcycle
mountain: climb peak summit|mourn grieve: sad died miss|movie cinema: film|museum: exhibit gallery
music: play song band|name: call title|nationality: from born country|neighbour: door next
nephew: niece aunt uncle|newborn: baby born|news: tell hear|newspaper: paper press
nickname: call name called|nightmare: dream|noise: sound loud|normal: usual|notice: see spot
novel read library chapter: book|nowadays: now|number quantity: many|observe: see saw watch
obstacle: problem|obtain: get got|offer: propose|office: desk work|offspring: child son daughter
opinion: think view say|opponent rival: against beat|orchard: apple tree fruit|order: ask buy
origin: come grow|originally: first|orphan: parents died|outage: power electricity
outdoor outdoors: hike camp garden walk park|overtime project: work|overwhelm: stress much|owe: debt
owner: bought belongs own|pack: bag suitcase|paint: picture colour
painting: picture|parcel: package post|participate partake: join sign play compete
party: celebrate guest|pass: passed exam|passenger: train bus flight|passion passionate: love enjoy
passport: border visa|pastry: cake pie|path: trail way|patience: wait|penalty fine: pay
pension: retire|pensioner: retired|perform: play show stage sang|perfume scent: smell
permit: let allowed|persuade: convince talk talked|pet: dog cat animal|phone: call ring
photo photograph: picture camera|phrase expression saying: said words
physical: body gym run exercise|physician medic: doctor|picture: photo image
pill: tablet medicine dose|pipe: plumber leak|plan: idea going|plant: grow seed|playground: children
poem: poetry write|police: officer arrest|polish: shine|popular: famous|portrait: picture face
position: job post role|possess: own have|possession belongings: things bag|post: mail send
postpone: delay late later moved put|pottery: clay pot|power: electricity
practise: train rehearse every|praise compliment: said great lovely|pray: church god
precipitation: rain snow|predict: think will|prefer: favourite rather like
pregnancy: pregnant baby expect|prepare preparation: ready cook|present: show gift|prevent: stop
previous: before|price: cost pay pound|priest: vicar church|prison: jail|prize: win award
problem: trouble wrong|process: first then|profit: money earn|programme demonstrate display: show
promise: vow swear will|promote: promotion boss|proportion fraction: half third
propose: marry ring asked yes|protect: save guard|protest: march|proud: pride|pseudonym: name called
pub: bar beer|publish: book print out|pup: puppy dog|puppy: dog|purchase: buy bought get
purpose: for so|puzzle: solve|qualify: exam certificate|queue: wait line|quick speed: fast
quiet: silent|quit: leave notice resign stop|race: run|raise: collect money brought collected
rank: place|rare: seldom|reaction react: cry laugh happy shout surprise|reason: because why
recall: remember|receive: get given got|recipe: cook bake dish|recite: poem|recognise: knew
recommend: suggest tip|record: album tape|recover: better heal home again|recovery: better heal
recuperate: better home again|refuse: no decline reject|regret: sorry wish should
rehabilitation rehab: physio recover|rehearse: practise|relative: family relation cousin
relax: calm rest|religion: church pray god faith|relocate: move moved
remedy treatment: medicine therapy pill doctor|remove: took off|renovate: paint repair new
rent: landlord lease let pay month|repair: fix mend restore fixed|reply: answer write
reptile: snake lizard turtle|request: ask|reschedule: moved date|rescue: save saved
residence reside dwelling: live house flat home moved|resident inhabitant: live
resign: quit notice leave|resolution: year promise|rest: break relax sleep sit|restaurant: eat table
result: score end|retire: pension stop|retrieve: back got|return: back come home
reunion: meet together|reveal: tell show told said|reward: prize got|ring: finger
risk threat: danger|river: water stream|rodent: mouse rat|round: circle|route: way road
routine ritual: every always morning|rude: impolite|rumour: heard|run: jog race|rush: hurry
sad: cry tear grief|salary: wage pay earn paid|save: money rescue
scenery scenic view: mountain lake see|scholarship: study|school: pupil class|score: goal point
sculpture: statue carve|search: look hunt|season: summer winter spring autumn
secret: hide told nobody|see: watch look|sell: sale sold|senior: old|series: show watch
setback hurdle: problem fail lost broke|sew embroider: needle|shame: embarrassed|shape: round square
shift: night work|ship: boat sent post|shoe: wear foot|shop: store buy|shrink: small
shy silence: quiet|sick: ill poorly unwell|similarity common: both same too|sit armchair: chair
size: big|sketch: draw|ski: snow slope|skin: dermatologist|sleep: night bed|slip: fall
smell: scent stink|snack: bite eat|snow: ice winter|sofa: couch|soil: earth ground garden
soldier: army war|solution: fix answer|solve: fix|song: sing tune|sorry: apologise|sound: noise hear
souvenir: bring|special: unusual|spectator: watch crowd|spend: paid cost
spice: pepper cinnamon cumin ginger|sponsor: fund pay|spouse: wife husband|spring: april may march
stage: perform|stall: sell market|stare: look|start: begin|steal: theft stolen burgle rob
sting: bee wasp|stop: quit end|storm: wind thunder|story: tale tell|strange: odd weird
stranger mystery: unknown|strategy: plan|strength: strong|stress: pressure overwhelm|strike: union
stroll park pedestrian: walk|studio: workshop|study: learn university|stupid: silly foolish
succeed: manage passed won made|success: win well|suffer: pain ill|suggest: advise idea
summer: june july august|superstition: luck|support: help back|surgeon: operate operation
surgery: operate operation surgeon|surprise: shock unexpected unannounced suddenly|survive: alive
swallow devour: eat|swim: pool water|swing: playground|symbol represent: mean stand
symbolise symbolize signify: means stands|symptom: feel pain|tale: story|talent skill: good can play
tall: high metre|taste: flavour like sweet|tattoo: ink|tax fund rich poor: money
teacher: tutor instructor coach trainer professor|team: club side|teenager: teen youth adolescent
television: tv telly watch|telly: tv television|temperature: degrees cold hot|tenant: rent flat
term: word called|theatre: play stage|therapy: therapist counsel session|thirsty: drink
thrilled: excited happy|ticket: book fare|tidy: clean|tired: sleep exhausted|title: called name
tool: hammer drill|tooth: dentist|total: all|tour: travel visit|tourist: visit trip
tradition: every year always|trail: walk path|train: rail station practise exercise taught learn
trait personality character: kind funny shy calm honest|translate: language
transport: car bus train van bike|trick: magic|trip: travel holiday journey|trophy: cup win
trouble: problem difficult|tuition: fee course pay|tune: song melody|twin: sibling brother sister
unemployed interview task duty: job|union hit: strike|university: study college
unknown: mystery anonymous|unusual: strange odd|unwind: relax calm|upbringing: grew child parents
upset: cry angry|usually: often always|utensil: spoon knife fork pan pot
vacation getaway: holiday trip beach week|vaccine: jab injection|vanish disappear: gone lost
vegetable: grow garden|vegetarian: vegan meat|vegetation: plant tree
vehicle: car van truck bus train bike|venue location: place at hall park|vet: animal
veteran: war army years|vicar: priest church|victim: hurt|victory: win|video: film record
visit: come see stay|volunteer: help charity|vote: election|voyage: sail ship|wage: pay paid earn
wait: queue|waiter: serve|wake: morning|walk: stroll|war: soldier army|warehouse: store
warning: careful|watch: see look|weakness: weak|weapon: gun knife rifle|wear: dress clothes
weather: rain sun|weave: loom|wedding: marry bride|weed: garden|weekend: saturday sunday
weekly: week every|weigh: heavy|weight: kilo heavy|weird: strange|wet: damp soak
widow widower: husband wife died|width: wide|wife: husband spouse married
wildlife: bird fox deer owl|win: victory first|winter: december january february|wisdom: wise
witness: see saw|word pronounce: say|workplace: office desk shop|workshop: studio bench
worry: afraid nervous anxious|worse drawback disadvantage: bad|wound: cut scar|wrong: mistake
yearly annual: year every|yoga: stretch|youth: young teenage
"""
"""What is asked before the colon, what is said after it; separated by bars and by lines."""

KINDS = """
dog hound breed: puppy greyhound whippet labrador terrier spaniel collie poodle dachshund beagle
  retriever shepherd bulldog husky corgi mongrel
bird: budgie canary parrot owl falcon hawk eagle gull pigeon robin sparrow heron swan goose duck
  crow peregrine blackbird swallow
insect: bee wasp ant beetle butterfly moth fly mosquito spider
city town destination abroad: london paris berlin rome madrid lisbon vienna prague dublin amsterdam
  barcelona athens tokyo york edinburgh glasgow copenhagen stockholm oslo budapest istanbul
country abroad nation destination: france germany italy spain portugal greece ireland scotland wales
  england turkey japan china india mexico canada america sweden norway denmark austria switzerland
  croatia morocco egypt iceland
trip travel journey holiday vacation: fly train ferry drive flight beach lake island hotel camp
  cruise abroad
relaxation relax unwind calm stress: bath swim walk yoga read bake music run paint meditate sleep
  garden
book novel literature: read author chapter story page
musician music instrument: violin guitar piano accordion drum harp flute trumpet cello choir band
  concertina tuba
headgear: hat cap helmet bonnet beret scarf crown
jewellery: ring necklace bracelet earring brooch watch
illness condition sick: meningitis pneumonia bronchitis arthritis asthma diabetes stroke dementia
  depression concussion eczema
doctor medic physician: surgeon cardiologist vet dentist physio nurse paramedic midwife therapist
  specialist consultant
injury accident: fall slip crash cut burn sprain break
body: knee ankle wrist shoulder elbow neck hip toe finger thumb tooth
school education: lesson class exam degree course teacher homework graduate
relationship romance: date engage marry propose divorce kiss girlfriend boyfriend
celebration occasion event: wedding birthday anniversary christmas easter graduation funeral baptism
  housewarming
room: kitchen bathroom bedroom attic cellar garage hall study
pastry baking bake: bread cake loaf pie scone biscuit cookie muffin tart dough sourdough
dessert sweet: cake pie ice chocolate pudding biscuit cookie
drink alcohol: beer wine whisky gin rum cider
religion faith: church mosque temple synagogue ramadan lent easter pray bible fast sunday
disaster damage: fire flood storm leak burst break earthquake
cost price money amount sum pay: euro dollar pound cent hundred thousand quid fee
time date day: monday tuesday wednesday thursday friday saturday sunday january february march april
  june july august september october november december
team sport game: football cricket rugby basketball volleyball hockey netball match goal final cup
tool: hammer saw drill screwdriver spanner chisel axe ladder knife
material: wood steel iron leather wool cotton silk clay glass stone brass copper paper
boat ship: canoe kayak ferry yacht dinghy sail
work job office: shift boss contract salary colleague
technology device: phone laptop tablet computer camera headphones printer
volunteer charity: shelter donate raise fundraiser hospice soup food
nature outdoors: forest lake mountain river beach hike camp trail waterfall
art artist artwork: painting sculpture drawing exhibition gallery portrait mural
performance show: concert play theatre dance gig recital comedy
family children: son daughter twin baby nephew niece
feeling mood emotion reaction: happy sad angry scared proud relieved nervous cry laugh
housing home: flat house cottage rent landlord mortgage move
subject field study: biology history law medicine nursing art design psychology education
document paper: letter passport contract certificate licence invoice
"""
"""Names before the colon, things after it; a line that begins with spaces goes on."""
