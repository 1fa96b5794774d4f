"""The pools of names. They refer to no real person. The callers draw each person's name.

The names are as awkward as a school's: accents, apostrophes, hyphens, spaces, particles, family names that come first,
and scripts that a spreadsheet garbles when it guesses the wrong encoding.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

import numpy as np

from pipelines.sandbox.rng import Ints, Rng


class _Tradition(NamedTuple):
    """Given and family names that go together. A name without ASCII equivalent has its ASCII spelling after a bar."""

    weight: int  # per cent of all people
    family_first: bool
    given: str
    family: str


_TRADITIONS = (
    _Tradition(
        weight=66,
        family_first=False,
        given="Ada Alice Amara Anna Arthur Beatrix Ben Bruno Carl Cecily Clara Conor Dana Daniel Dora Edith Edwin Ella "
        "Elsie Emil Esther Ethan Eva Felix Fiona Flora Frank Freda George Greta Hannah Harold Hazel Henry Hugo Ida "
        "Iris Isaac Ivy Jack Jane Jasper Joan Jonah Judith Julia Kate Kit Laura Leo Lena Lily Louis Lucy Mabel Marcus "
        "Martha Max Maya Milo Nell Nora Oliver Oscar Otis Owen Paula Penny Peter Phoebe Quentin Rachel Ralph Robin "
        "Rosa Rowan Ruth Sam Silas Simon Stella Susan Tess Theo Thomas Toby Ursula Vera Victor Violet Walter Wendy "
        "Wilma Winifred Anne-Marie Jean-Luc Mary-Ann",
        family="Abbott Aldridge Appleby Ashdown Barlow Beckett Bellweather Birch Bramley Brook Burrows Calloway Carver "
        "Chandler Clearwater Coldwell Cooper Crane Dalby Dunmore Eastwood Elmsworth Fairbank Falconer Farrow Fenwick "
        "Fletcher Foxley Garland Goodall Greenhalgh Grove Hale Hargrove Hartley Hawthorn Hazelton Heron Holloway "
        "Ingleby Kestrel Kingsley Lambourne Langley Larkin Linden Lockwood Marlow Mayfield Meadows Merriweather "
        "Millbrook Moorcroft Nettleton Newbold Oakley Orchard Palmer Partridge Pemberton Penrose Pickering Quill "
        "Radley Ravenhill Redfern Rivers Rowntree Sandford Saxby Shepherd Silverton Sparrow Stonebridge Summers "
        "Swift Tanner Thistlewood Thornbury Underhill Vale Wainwright Waverley Westbrook Whitlock Wildgoose Winterton "
        "Woodruff Wren Yarrow O'Brannigan O'Dunlin D'Arbelle Smith-Linden Fox-Hale",
    ),
    _Tradition(
        weight=22,
        family_first=False,
        given="André Anaïs Béla Björk Čeněk Chloé Damián Élodie Emilía Fátima François Gülşen Hélène İpek|Ipek Inés "
        "Jörg João Jürgen Kärt Léa Łucja|Lucja Màiri Martín Mélisande Nuño Océane Øyvind|Oyvind Özge Renée Şirin Siân "
        "Søren|Soren Tiên Ünal Věra Zoë Žofie",
        family="Ångsund Bäckström Brûlard Castañar Çelimli Dvořákov Éluère Fjärdholm García-Olmo Grönlid Hồ-Thị "
        "Iñigueta Jørnsund|Joernsund Kowalówna Lefèvrine Łąkowska|Lakowska Márquezal Müllenberg Nuñezal Ólafsdal "
        "Özdemirli Peñalta Quiñonel Řezníčkov Sæbøstad|Saeboestad Straßwald|Strasswald Tō-Kearney Ušakovs "
        "van~der~Heyde Vējonis Weißdorn|Weissdorn Gündüzlü Żurawska",
    ),
    _Tradition(
        weight=7,
        family_first=True,
        given="美咲|misaki 大翔|hiroto 陽菜|hina 蓮|ren 小明|xiaoming 雪|xue 志遠|zhiyuan 芳|fang 하늘|haneul "
        "서연|seoyeon 민준|minjun 지우|jiwoo",
        family="佐野|sano 森本|morimoto 高瀬|takase 林|lin 欧阳|ouyang 方|fang 陸|lu 김|kim 남궁|namgung 윤|yun 한|han",
    ),
    _Tradition(
        weight=5,
        family_first=False,
        given="Ольга|olga Мирон|miron Зоряна|zoriana Νίκη|niki Αλέξης|alexis Φωτεινή|foteini ليلى|layla سامي|sami "
        "नीला|nila आरव|arav",
        family="Соловейко|soloveiko Вишневська|vyshnevska Береза|bereza Θαλασσινός|thalassinos Αμπελάς|ampelas "
        "النجار|alnajjar البستاني|albustani गुलमोहर|gulmohar",
    ),
)


class Name(NamedTuple):
    """One part of a name, and how it is spelled in an email address."""

    shown: str
    spelled: str


def _read(entry: str) -> Name:
    shown, _, spelled = entry.replace("~", " ").partition("|")
    plain = unicodedata.normalize("NFKD", spelled or shown).encode("ascii", "ignore").decode().lower()
    return Name(shown, "".join(letter for letter in plain if letter.isalnum() or letter == "-"))


GIVEN = [_read(entry) for tradition in _TRADITIONS for entry in tradition.given.split()]
FAMILY = [_read(entry) for tradition in _TRADITIONS for entry in tradition.family.split()]

_LIMITS = np.cumsum([tradition.weight for tradition in _TRADITIONS])[:-1] / 100
_GIVEN_SIZES = np.array([len(tradition.given.split()) for tradition in _TRADITIONS])
_FAMILY_SIZES = np.array([len(tradition.family.split()) for tradition in _TRADITIONS])
_FAMILY_FIRST = np.array([tradition.family_first for tradition in _TRADITIONS])


def tradition_of(rng: Rng, person: Ints) -> Ints:
    """Return the tradition of each person's names; it never changes."""
    return np.searchsorted(_LIMITS, rng.share("tradition", person), side="right")


def given_of(rng: Rng, person: Ints, tradition: Ints, turn: Ints | int = 0) -> Ints:
    """Return each person's index in GIVEN; another turn gives another name."""
    return _index(rng.below("given", person, 1 << 30), tradition, turn, _GIVEN_SIZES)


def family_of(rng: Rng, person: Ints, tradition: Ints, turn: Ints | int = 0) -> Ints:
    """Return each person's index in FAMILY; another turn gives another name."""
    return _index(rng.below("family", person, 1 << 30), tradition, turn, _FAMILY_SIZES)


def _index(draw: Ints, tradition: Ints, turn: Ints | int, sizes: Ints) -> Ints:
    offsets = np.cumsum(sizes) - sizes
    return offsets[tradition] + (draw + turn) % sizes[tradition]


def full_name(given: Name, family: Name, family_first: bool) -> str:
    """Return the name as the register shows it."""
    return f"{family.shown} {given.shown}" if family_first else f"{given.shown} {family.shown}"


def family_first(tradition: Ints) -> list[bool]:
    """Return, per person, whether the family name comes first."""
    return [bool(flag) for flag in _FAMILY_FIRST[tradition].tolist()]
