"""The pools of names. They refer to no real person. The callers draw the shares by which each is chosen.

The names are as awkward as a school's: accents, apostrophes, hyphens, spaces, particles, family names that come first,
and scripts that a spreadsheet garbles when it guesses the wrong encoding.
"""

from __future__ import annotations

import unicodedata
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]


class Person(NamedTuple):
    """Somebody's name: in full, in parts, and as an email address spells it."""

    name: str
    first_name: str
    last_name: str
    spelled: str


class _Tradition(NamedTuple):
    """Given and family names that go together. A name without ASCII equivalent has its ASCII spelling after a bar."""

    weight: int  # per cent of all people
    family_first: bool
    given: str
    family: str


def _read(text: str) -> list[tuple[str, str]]:
    """Return names as shown, and as spelled in an email address."""
    found = []
    for entry in text.split():
        shown, _, spelled = entry.replace("~", " ").partition("|")
        plain = unicodedata.normalize("NFKD", spelled or shown).encode("ascii", "ignore").decode().lower()
        found.append((shown, "".join(letter for letter in plain if letter.isalnum() or letter == "-")))
    return found


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


_POOLS = [(each.family_first, _read(each.given), _read(each.family)) for each in _TRADITIONS]
_LIMITS = np.cumsum([tradition.weight for tradition in _TRADITIONS])[:-1] / 100


def people(tradition: Floats, given: Floats, family: Floats) -> list[Person]:
    """Return one person for each three shares between 0 and 1: of the traditions, and of the names of one."""
    found = []
    traditions = np.searchsorted(_LIMITS, tradition, side="right").tolist()
    for at, own, shared in zip(traditions, given.tolist(), family.tolist(), strict=True):
        family_first, given_names, family_names = _POOLS[at]
        first_name, first = given_names[int(own * len(given_names))]
        last_name, last = family_names[int(shared * len(family_names))]
        name = f"{last_name} {first_name}" if family_first else f"{first_name} {last_name}"
        found.append(Person(name, first_name, last_name, f"{first}.{last}"))
    return found
