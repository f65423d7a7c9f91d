"""Words that people use for one another, in operations and in daily life.

A question's word brings the others of its lines along at a small weight; facts are indexed as they
are. Kept short on purpose: a line stands here when the words are exchanged in ordinary speech.
"""

from __future__ import annotations

import functools

from knowledge_service.index import analyser

_LINES = """
remove delete drop erase purge evict clean
make create build construct produce
start begin launch boot commence
stop halt end quit finish abort
fail break crash die hang freeze stall
error failure fault bug defect problem mistake issue outage incident
slow delay latency lag late
restart reboot recycle
image container
photo picture image
pod container workload
machine node host server instance computer
disk volume storage space filesystem
memory ram heap
cpu processor core
secret credential password key token
certificate tls ssl
database postgres sql db
release deploy ship rollout publish deliver
revert rollback undo
upgrade update migrate
configuration config setting option parameter
flag toggle switch
limit maximum max cap ceiling quota threshold bound largest
minimum least floor smallest
permission right access role privilege
user customer client visitor
team group crew
cost price spend bill money euro dollar pay expensive
test check verify validate
log record event
message record event
alert page alarm
backup snapshot copy save
restore recover
retry repeat
timeout deadline
replica copy instance
realm namespace project
owner responsible own
approve permit allow agree
refuse reject deny block forbid
schedule cron recurring periodic
night nightly overnight
big large huge
small little tiny
quick fast rapid speed
often frequent
throw evict discard
lose vanish disappear missing
duplicate twice double
component module service application app
child kid son daughter
mother mum parent
father dad parent
work job career profession occupation
trip travel journey vacation holiday visit
buy purchase
study learn course class school train education
hobby activity pastime
move relocate
celebrate party
ill sick disease health
hurt injure injury
house home flat apartment
car vehicle
movie film
win victory
marry wedding engage
music song instrument
collect raise
run race marathon
animal pet
employee colleague worker consumer
"""
# More of them would cost more reading than they find.
_MOST = 16
WEIGHT = 0.4
"""What a synonym counts beside the word that was asked for."""


def beside(terms: tuple[str, ...]) -> tuple[str, ...]:
    """Return the terms that mean about the same as those of a question, without these."""
    table = _table()
    found = dict.fromkeys(other for term in terms for other in table.get(term, ()))
    return tuple(term for term in found if term not in terms)[:_MOST]


@functools.cache
def _table() -> dict[str, tuple[str, ...]]:
    table: dict[str, dict[str, None]] = {}
    for line in _LINES.splitlines():
        words = tuple(dict.fromkeys(map(analyser.word, line.split())))
        for word in words:
            table.setdefault(word, {}).update(dict.fromkeys(words))
    return {word: tuple(others) for word, others in table.items()}
