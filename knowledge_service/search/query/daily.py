"""Words of daily life that belong together, as `lexicon` has those of operations and of both.

A line stands here when it is true of ordinary speech, never because one question needs it.
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
