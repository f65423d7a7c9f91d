"""What the analyser knows of English: words that say nothing, irregular forms, spellings.

Plain tables; a word that is in none of them is only stemmed. A change here changes terms, so it
needs a new `analyser.VERSION`.
"""

from __future__ import annotations

_NOTHING = """
a about after again all also am an and any are as at be because been before being but by can could
did do does doing for from further had has have having he her here him his how i if in into is it
its just me more most my no nor not now of off on once only or other our out over own same she
should so some such than that the their them then there these they this those through to too under
until up very was we were what when where which while who whom whose why will with would you your
"""
STOP_WORDS = frozenset(_NOTHING.split())

_LITTLE = """
get make go come take give know think like want need say tell use kind sort type thing name call
much many way
"""
LIGHT_WORDS = frozenset(_LITTLE.split())
"""Words that say little in a question, though few facts may have them: rare is not telling."""

_FRAME = """
happen become people mention describe discuss talk share feel new first last old good great day time
year month currently recently together part able different various ever also according person long
end start begin finally actually really one
"""
FRAME_WORDS = frozenset(_FRAME.split())
"""Words that questions are put with: they say less than what they are put around."""

# Base form first; every other word of a line becomes it before stemming.
_IRREGULAR = """
be were was been|become became|begin began begun|bend bent|bind bound|bite bit bitten
blow blew blown
break broke broken|bring brought|build built|burn burnt|buy bought|catch caught|choose chose chosen
come came|cost costs|deal dealt|dig dug|draw drew drawn|dream dreamt|drink drank drunk
drive drove driven|eat ate eaten|fall fell fallen|feed fed|feel felt|fight fought|find found
fly flew flown|forget forgot forgotten|forgive forgave forgiven|freeze froze frozen|get got gotten
give gave given|go went gone|grow grew grown|hang hung|have had has|hear heard|hide hid hidden
hold held|keep kept|know knew known|lead led|learn learnt|leave left|lend lent|lose lost|make made
mean meant|meet met|pay paid|ride rode ridden|ring rang rung|rise rose risen|run ran|say said
see saw seen|sell sold|send sent|shake shook shaken|shine shone|shoot shot|show shown
shrink shrank shrunk|sing sang sung|sink sank sunk|sit sat|sleep slept|slide slid|speak spoke spoken
spend spent|spill spilt|split splits|spread spreads|stand stood|steal stole stolen|stick stuck
strike struck|swear swore sworn|sweep swept|swim swam swum|take took taken|teach taught
tear tore torn|tell told|think thought|throw threw thrown|understand understood|wake woke woken
wear wore worn|weep wept|win won|withdraw withdrew withdrawn|write wrote written
child children|man men|woman women|person people|foot feet|tooth teeth|mouse mice|goose geese
life lives|wife wives|knife knives|leaf leaves|half halves|shelf shelves|index indices indexes
datum data|analysis analyses|crisis crises|criterion criteria|vertex vertices|matrix matrices
mum mom mums moms mummy mommy|dad dads daddy|grandma granny|grandpa granddad
center centre|theater theatre|meter metre|liter litre|color colour|favor favour|behavior behaviour
neighbor neighbour|honor honour|labor labour|humor humour|catalog catalogue|program programme
license licence|defense defence|gray grey|artifact artefact|jewelry jewellery
travel travelled traveller
cancel cancelled canceled|pajamas pyjamas|tire tyre|plow plough|aging ageing|judgment judgement
2 two|3 three|4 four|5 five|6 six|7 seven|8 eight|9 nine|10 ten|11 eleven|12 twelve|20 twenty
30 thirty
cpu cpus|gpu gpus|vm vms|db dbs|pv pvs|pvc pvcs|crd crds|pdb pdbs|hpa hpas|vpc vpcs|rpc rpcs
sdk sdks|ssd ssds|cve cves|pr prs|sli slis|slo slos|llm llms|mb mbs|gb gbs
""".replace("\n", "|")

IRREGULAR = {
    form: line.split()[0] for line in _IRREGULAR.split("|") if line.strip() for form in line.split()
}
"""From an irregular form, plural, spelling or small number in words to the form that is indexed."""

MONTHS = (
    "january", "february", "march", "april", "may", "june", "july", "august", "september",
    "october", "november", "december",
)  # fmt: skip
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
