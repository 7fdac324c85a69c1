"""Kinds of things that one noun may be taken up by another: "the town" after "is a port"."""

from __future__ import annotations

# Before the bar what any of a kind may be called, after it what only some are: a port is "the
# town", but a town is not "the port".
_PLACES = (
    "city town village municipality settlement community | commune hamlet capital port seat"
    " borough suburb resort metropolis",
    "country nation | kingdom republic empire",
    "region territory | county district province state department prefecture",
    "river stream waterway | creek tributary",
    "lake | reservoir lagoon loch",
    "sea | ocean gulf bay strait",
    "mountain peak summit | volcano hill",
    "island | isle islet atoll",
    "school institution | college university academy institute conservatory seminary",
    "college academy institute | university",
    "bridge crossing structure | viaduct",
    "building structure | house hall mansion castle palace tower fort villa skyscraper",
    "house residence | mansion hall villa manor",
    "church building | cathedral abbey chapel basilica minster",
    "monastery | abbey priory convent",
    "temple building | mosque synagogue shrine",
    "museum gallery institution",
    "library institution | archive",
    "theatre theater venue",
    "hospital | clinic",
    "park | garden reserve",
    "stadium arena venue",
    "station",
    "observatory institution | laboratory",
)
_THINGS = (
    "film movie picture feature documentary",
    "song single track tune | ballad",
    "album record release | ep lp soundtrack",
    "book work | novel novella memoir biography",
    "novel story | novella",
    "poem work | sonnet ballad epic",
    "play drama work | comedy tragedy musical",
    "work piece | opera operetta symphony concerto sonata composition",
    "painting picture work | portrait fresco",
    "series show program programme | sitcom",
    "company firm business corporation | manufacturer maker brewery bank publisher airline",
    "organization organisation | association society charity agency party union institute",
    "association | society union federation",
    "team club side squad",
    "band group | duo trio quartet",
    "magazine journal newspaper paper periodical publication",
    "episode installment",
    "ship vessel boat | steamer frigate cruiser battleship destroyer submarine sloop"
    " brig corvette schooner yacht liner tanker freighter trawler ferry barque",
    "aircraft plane",
    "channel station network broadcaster",
    "language | dialect",
    "war conflict",
    "award prize",
)
_CALLINGS = (
    "writer author | novelist poet playwright essayist dramatist",
    "musician | composer pianist violinist singer songwriter conductor organist guitarist",
    "singer | songwriter rapper",
    "artist | painter sculptor illustrator engraver",
    "actor performer | actress",
    "ruler monarch sovereign | king queen emperor empress",
    "scientist | physicist chemist astronomer mathematician biologist botanist naturalist",
    "politician statesman | senator congressman",
    "architect",
    "engineer | inventor",
    "philosopher scholar | theologian",
    "soldier officer commander | general admiral colonel captain",
    "explorer | navigator",
    "player athlete | footballer cricketer",
)
_PEOPLE = frozenset(
    " ".join(_CALLINGS).replace("|", "").split()
    + (
        "person man woman boy girl child people son daughter brother sister father mother wife"
        " husband uncle aunt nephew niece cousin widow actor lawyer attorney judge doctor physician"
        " surgeon nurse teacher professor lecturer preacher minister priest bishop archbishop pope"
        " cardinal monk nun abbot saint knight baron baroness count countess duchess earl lord lady"
        " noble nobleman merchant banker trader farmer founder leader president governor mayor"
        " ambassador diplomat chancellor secretary editor director producer filmmaker screenwriter"
        " photographer designer dancer choreographer rapper guitarist drummer bassist entertainer"
        " comedian broadcaster presenter host model golfer boxer wrestler swimmer runner jumper"
        " cyclist driver racer rider skater skier shooter rower sailor wrestler cricketer"
        " goalkeeper midfielder striker defender forward quarterback pitcher coach manager referee"
        " astronaut pilot aviator spy revolutionary activist reformer philanthropist entrepreneur"
        " publisher translator researcher historian critic curator librarian officer admiral"
        " captain colonel lieutenant sergeant pirate criminal murderer killer warrior chief"
        " prophet apostle martyr hermit missionary pioneer gardener printer watchmaker craftsman"
        " carpenter builder baker brewer mountaineer climber surveyor cartographer geographer"
        " photographer lyricist pastor rabbi imam goddess god character pupil student apprentice"
    ).split()
)
_PERSONAL_ENDINGS = ("ist", "ologist", "ician", "woman", "man", "wright")
_NO_PEOPLE = frozenset("list checklist playlist shortlist mist twist wrist talisman".split())
MALE_NOUNS = frozenset(
    "king emperor prince duke baron count earl lord father son brother husband uncle nephew"
    " grandfather grandson monk pope priest man boy nobleman statesman".split()
)
FEMALE_NOUNS = frozenset(
    "queen empress princess duchess baroness countess lady mother daughter sister wife aunt niece"
    " grandmother granddaughter actress nun woman girl widow".split()
)
_KINDS = tuple(
    tuple(frozenset(side.split()) for side in f"{kind} |".split("|")[:2])
    for kind in (*_PLACES, *_THINGS, *_CALLINGS)
)
# Not "the director" or "the officer", who is often another.
_TAKEN_UP = frozenset(
    "writer author novelist poet playwright composer musician singer artist painter sculptor"
    " scientist physicist architect philosopher footballer saint".split()
)
_CALLING_NOUNS = frozenset(" ".join((*_CALLINGS, "actor director filmmaker producer")).split())
_PLACE_NOUNS = frozenset(" ".join(_PLACES).split())
_THING_NOUNS = frozenset(" ".join((*_PLACES, *_THINGS)).split())


def alike(noun: str) -> frozenset[str]:
    """Give the nouns by which what was called `noun` may be taken up, `noun` included.

    >>> "town" in alike("port"), "port" in alike("town"), alike("comet")
    (True, False, frozenset({'comet'}))
    """
    general = (wide for wide, narrow in _KINDS if noun in wide or noun in narrow)
    return frozenset({noun}).union(*general)


def is_person_noun(noun: str) -> bool:
    """Say whether a noun is said of people: "architect", "queen"."""
    if noun in _NO_PEOPLE:
        return False
    return noun.rsplit("-", 1)[-1] in _PEOPLE or noun.endswith(_PERSONAL_ENDINGS)


def is_calling(noun: str) -> bool:
    """Say whether a noun may stand before a name as what its bearer does: "composer"."""
    return noun in _CALLING_NOUNS


def may_mean_person(noun: str) -> bool:
    """Say whether "the author" is the person that a text is about, whatever it says before."""
    return noun in _TAKEN_UP


def is_place_noun(noun: str) -> bool:
    """Say whether something can be somewhere "there": a town, a school, a river."""
    return noun in _PLACE_NOUNS


def is_thing_noun(noun: str) -> bool:
    """Say whether a noun is never said of people."""
    return noun in _THING_NOUNS and not is_person_noun(noun)
