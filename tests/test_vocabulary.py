import json
import re
from collections import Counter
from pathlib import Path

import pytest
import yaml

from medsg_build import vocabulary
from medsg_build.errors import UnknownName
from medsg_build.vocabulary import (
    neighbours,
    regions,
    related,
    structure,
    structures,
    unrelated,
)

SHARED = Path(__file__).parents[1].parent / "shared"
needs_shared = pytest.mark.skipif(not SHARED.is_dir(), reason="the fact sheets are not here")

MODALITIES = {
    "CT", "CTA", "CBCT", "MRI", "US", "X-ray",
    "Endoscopy", "Colonoscopy", "Laparoscopy", "Fundus", "Dermoscopy",
}  # fmt: skip

UNPAIRED = {"LeftVentricle", "RightVentricle", "LeftAtrium", "RightAtrium", "LeftAtrialWall",
            "LeftAtrialAppendage", "LeftVentricleEpicardium"}  # fmt: skip
"""Parts of the one heart: a side in the name, none in the body."""

NO_STRUCTURE = {
    "background": "every label map has one",
    "ignore (other pathology)": "wmh: value 2 is to be left out",
    "(skip: no box)": "vindr-mammo: No Finding",
    "ProstateZone (which zone: unconfirmed)": "qubiq2020: nobody can ask for an unknown zone",
    # segrap2023: 54 ids are exclusive pieces of 45 organs; these are overlaps of two organs.
    "TemporalLobe_Hippocampus_L": "of LeftTemporalLobe and LeftHippocampus",
    "TemporalLobe_Hippocampus_R": "of RightTemporalLobe and RightHippocampus",
    "MiddleEar_TympanicCavity_L": "of LeftMiddleEar and LeftTympanicCavity",
    "MiddleEar_TympanicCavity_R": "of RightMiddleEar and RightTympanicCavity",
    "MiddleEar_VestibulSemi_L": "of LeftMiddleEar and LeftVestibularOrgan",
    "MiddleEar_VestibulSemi_R": "of RightMiddleEar and RightVestibularOrgan",
    "MiddleEar_ETbone_L": "of LeftMiddleEar and LeftBonyEustachianTube",
    "MiddleEar_ETbone_R": "of RightMiddleEar and RightBonyEustachianTube",
    "Larynx_PharynxConst": "of Larynx and PharyngealConstrictor",
}


def sheets():
    found = []
    for path in sorted((SHARED / "datasets").glob("*.yaml")):
        sheet = yaml.safe_load(path.read_text(encoding="utf-8"))
        for label in sheet["labels"].values():
            if label is None or label in NO_STRUCTURE:
                continue
            word = label.split(" (")[0]  # "LeftHip (see labels_note)"
            if sheet["slug"] == "verse19":  # bare T1 and T2 would be MRI sequences
                word = f"Vertebra{word}"
            found.append((sheet["slug"], word))
        found += [
            (sheet["slug"], word)
            for word in sheet.get("medsg_names") or []
            if word.isalnum()  # not "(CervicalSpineN, ThoracicSpineN, LumbarSpineN)"
        ]
    return found


@needs_shared
def test_every_label_of_the_fact_sheets_resolves():
    assert len({slug for slug, _ in sheets()}) == 76
    for slug, word in sheets():
        try:
            structure(word)
        except UnknownName as error:
            pytest.fail(f"{slug}: {error}")


@needs_shared
def test_every_published_expression_but_the_sequences_resolves():
    rows = (SHARED / "scorer" / "task8_qwen2_5_vl_7b.jsonl").read_text(encoding="utf-8")
    asked = {json.loads(row)["expression"] for row in rows.splitlines()}
    sequences = {word for word in asked if word.casefold() in vocabulary.SEQUENCES}
    assert sequences == {"T1", "T2", "T1ce", "FLAIR"}
    for word in asked - sequences:
        structure(word)


@needs_shared
@pytest.mark.parametrize("kind", ["ct", "mr"])
def test_every_totalsegmentator_label_resolves_with_its_side(kind):
    labels = json.loads((SHARED / "realdata/totalsegmentator/labels.json").read_text())[kind]
    found = {word: structure(word) for word in labels.values()}
    assert len({one.name for one in found.values()}) == len(labels), "two labels, one structure"
    for word, one in found.items():
        side = next((side for side in ("left", "right") if side in word.split("_")), "none")
        assert one.side == side or one.name in UNPAIRED, word


@needs_shared
def test_every_vessel_part_of_the_angiogram_resolves():
    files = (SHARED / "realdata/totalsegmentator/cta").glob("*.nii.gz")
    for word in {path.name.removesuffix(".nii.gz") for path in files} - {"ct_cropped"}:
        structure(word)


@pytest.mark.parametrize(
    ("word", "name"),
    [
        ("kidney_right", "RightKidney"),
        ("right kidney", "RightKidney"),
        ("RIGHTKIDNEY", "RightKidney"),
        ("vertebrae_L3", "VertebraL3"),
        ("LumbarSpine3", "VertebraL3"),
        ("L3", "VertebraL3"),
        ("vertebrae_T1", "VertebraT1"),
        ("rib_left_7", "LeftRib7"),
        ("rib_left_11", "LeftRib11"),
        ("autochthon_left", "LeftAutochthon"),
        ("iliac_vena_left", "LeftCommonIliacVein"),
        ("lung_upper_lobe_left", "LeftUpperLungLobe"),
        ("gluteus_maximus_left", "LeftGluteusMaximus"),
        ("clavicula_left", "LeftClavicle"),
        ("LeftCollarBone", "LeftClavicle"),
        ("Postcava", "InferiorVenaCava"),
        ("MitralValve", "Myocardium"),
        ("Skin", "SkinLesion"),
        ("BreastCancer", "BreastLesion"),
        ("annulus_proper", "AorticAnnulus"),
        ("Larynx_Glottic", "Glottis"),
        ("oesophagus", "Esophagus"),
    ],
)
def test_synonyms(word, name):
    assert structure(word).name == name


@pytest.mark.parametrize("word", ["T1", "t2", "T1ce", "FLAIR", "flair", "DWI", "ADC", "T1Gd"])
def test_a_sequence_is_never_a_structure(word):
    with pytest.raises(UnknownName, match="MRI sequence"):
        structure(word)


def test_an_unknown_name_is_told_the_nearest():
    with pytest.raises(UnknownName, match=r"'RihgtKidney'.*did you mean RightKidney"):
        structure("RihgtKidney")
    with pytest.raises(UnknownName, match=r"no structure is called 'xyzzy'; none has a name like"):
        structure("xyzzy")
    with pytest.raises(UnknownName, match="no structure is called ''"):
        structure("")


def test_no_two_structures_share_a_word():
    # From the file itself: the look-up tables would hide a word that is given twice.
    text = Path(vocabulary.__file__).with_name("vocabulary.yaml").read_text(encoding="utf-8")
    entries = yaml.safe_load(text)["structures"]
    assert len(entries) == len(structures())
    owners: dict[str, set[str]] = {}
    for entry in entries:
        for word in (entry["name"], entry["say"], *entry.get("synonyms", [])):
            owners.setdefault(vocabulary._key(word), set()).add(entry["name"])
    assert {word: names for word, names in owners.items() if len(names) > 1} == {}
    assert not set(owners) & vocabulary.SEQUENCES
    assert max(Counter(entry["name"] for entry in entries).values()) == 1


def test_an_entry_is_well_formed():
    for one in structures():
        assert re.fullmatch(r"[A-Z][A-Za-z0-9]*", one.name)
        assert one.name.isascii()
        assert one.say.isascii()
        assert one.say.strip() == one.say != ""
        assert not re.match(r"(the|a|an) ", one.say), "the question gives the article"
        assert not set(one.say) & set("{}<>|"), "would break a wording or a box token"
        assert one.regions
        assert set(one.regions) <= set(regions())
        assert len(set(one.regions)) == len(one.regions)
        assert one.modalities
        assert set(one.modalities) <= MODALITIES
        keys = [vocabulary._key(word) for word in (one.name, *one.synonyms)]
        assert len(set(keys)) == len(keys), "a synonym that says the same again"


def test_sides_match_names_and_words():
    for one in structures():
        named = re.match(r"Left|Right", one.name)
        assert one.side == (named[0].lower() if named and one.name not in UNPAIRED else "none")
        if one.side != "none":
            other = {"left": "right", "right": "left"}[one.side]
            assert one.side in one.say.split()
            assert other not in one.say.split()
            if one.name != "RightMiddleLungLobe":  # the left lung has no middle lobe
                twin = structure(one.name.replace(one.side.title(), other.title(), 1))
                assert twin.regions == one.regions
                assert twin.say == one.say.replace(one.side, other)


def test_a_part_lies_where_its_whole_lies():
    for one in structures():
        seen = {one.name}
        while one.parent:
            whole = structure(one.parent)
            assert whole.name == one.parent, "a parent is given by its canonical name"
            assert whole.name not in seen, "a circle of parents"
            assert set(one.regions) <= set(whole.regions)
            assert whole.side in ("none", one.side)
            seen.add(whole.name)
            one = whole


def test_the_file_is_sorted_by_home_region_then_name():
    def place(one):
        digits = [int(part) if part.isdigit() else part for part in re.split(r"(\d+)", one.name)]
        return regions().index(one.regions[0]), digits

    assert list(structures()) == sorted(structures(), key=place)


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        ("Liver", "liver", True),
        ("Liver", "Spleen", False),
        ("LeftKidney", "RightKidney", True),
        ("LeftScapula", "RightScapula", True),  # twins without a parent
        ("LeftUpperLungLobe", "LeftLung", True),
        ("Lung", "LeftUpperLungLobe", True),
        ("LeftUpperLungLobe", "RightLowerLungLobe", True),
        ("VertebraT12", "VertebraL1", True),
        ("LumbarSpine", "L3", True),
        ("OpticCup", "OpticDisc", True),
        ("LeftVentricle", "RightVentricle", True),
        ("LeftVentricle", "Myocardium", True),
        ("BrainWholeTumor", "BrainEnhancingTumor", True),
        ("Heart", "Aorta", False),
        ("LeftKidney", "LeftAdrenalGland", False),
        ("LeftRib7", "RightRib12", True),
    ],
)
def test_related(a, b, expected):
    assert related(a, b) is expected
    assert related(b, a) is expected


def test_neighbours_are_mutual_and_closed():
    for region in regions():
        assert region not in neighbours(region)
        for other in neighbours(region):
            assert region in neighbours(other)
    assert "abdomen" in neighbours("thorax")
    assert "pelvis" in neighbours("abdomen")
    assert "pelvis" not in neighbours("thorax")
    assert neighbours("skin") == frozenset()
    with pytest.raises(UnknownName, match=r"no body region is called 'chest'.*thorax"):
        neighbours("chest")


@pytest.mark.parametrize(
    ("a", "b", "expected"),
    [
        (["head"], ["thorax"], True),
        (["head"], ["neck"], False),
        (["thorax"], ["thorax"], False),
        (["thorax"], ["abdomen"], False),
        (["thorax"], ["pelvis"], True),
        (["thorax", "abdomen"], ["pelvis"], False),
        (["gut"], ["thorax"], True),
        (["gut"], ["abdomen"], False),
        (["eye"], ["thorax", "abdomen", "pelvis"], True),
        (["skin"], ["breast"], True),
        (["breast"], ["thorax"], False),
        ([], ["head"], False),  # nothing known of one of them
        (["head"], [], False),
    ],
)
def test_unrelated(a, b, expected):
    assert unrelated(a, b) is expected
    assert unrelated(b, a) is expected


def test_unrelated_refuses_an_unknown_region():
    with pytest.raises(UnknownName):
        unrelated(["head"], ["chest"])
    with pytest.raises(UnknownName):
        unrelated(["chest"], ["head"])


def test_a_long_structure_is_unrelated_to_little():
    assert not unrelated(structure("SpinalCord").regions, ["head"])
    assert not unrelated(structure("Bone").regions, ["thorax"])
    assert unrelated(structure("OpticDisc").regions, ["abdomen"])
    assert unrelated(structure("Polyp").regions, structure("Heart").regions)
