"""Label maps to components, sections and boxes, by hand and against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from medsg_build.errors import SourceError
from medsg_build.model import Box
from medsg_build.regions import (
    blocks,
    body,
    bounds,
    changed,
    components,
    inside,
    pieces,
    sections,
    structure,
    whole,
)


def whole_block(mask):
    return tuple(slice(0, n) for n in mask.shape)


def parts(mask, dust=1):
    return components(mask, whole_block(mask), dust)[0]


# Boxes of pictures


def test_box_of_an_l_shape():
    mask = np.zeros((5, 6), bool)
    mask[1:4, 2] = mask[3, 2:5] = True
    assert bounds(mask) == Box(2, 1, 5, 4)


def test_box_of_one_pixel_of_all_and_of_none():
    mask = np.zeros((5, 6), bool)
    assert bounds(mask) is None
    mask[4, 5] = True
    assert bounds(mask) == Box(5, 4, 6, 5)
    assert bounds(~np.zeros((5, 6), bool)) == Box(0, 0, 6, 5)


def test_box_of_what_changed():
    before = np.full((5, 6, 3), 250, np.uint8)
    after = before.copy()
    after[2, 3, 1] = 0  # one channel
    after[4, 5, 0] = 249
    assert changed(before, after) == Box(3, 2, 6, 5)
    assert changed(before, after, floor=1) == Box(3, 2, 4, 3)
    assert changed(before, before) is None
    assert changed(before[..., 0], after[..., 0]) == Box(5, 4, 6, 5)


def test_the_body_is_the_largest_bright_part_with_its_holes():
    image = np.zeros((336, 336), np.uint8)
    image[50:250, 60:300] = 90
    image[100:150, 100:150] = 0  # a lung
    image[300:330, 10:40] = 200  # the table
    found = body(image)
    assert found[120, 120]
    assert not found[315, 25]
    box = bounds(found)
    assert max(abs(a - b) for a, b in zip(box, (60, 50, 300, 250), strict=True)) <= 3
    np.testing.assert_array_equal(body(np.dstack([image] * 3)), found)
    assert not body(np.zeros((336, 336), np.uint8)).any()


# Label values


def test_float_noise_is_rounded():
    data = np.array([0.9999, 0.0, 2.0001, 1e-7]).reshape(2, 2, 1)
    assert whole(data, "x").ravel().tolist() == [1, 0, 2, 0]
    assert whole(data, "x").dtype == np.uint8


@pytest.mark.parametrize("kind", [bool, np.uint8, np.int16, np.uint32, np.int64, np.float32])
def test_whole_values_pass_in_any_type(kind):
    out = whole(np.ones((2, 2, 2), kind), "x")
    assert out.dtype == np.uint8
    assert (out == 1).all()


def test_large_values_stay_apart():
    data = np.array([1, 256, 257, 65535], np.int32).reshape(4, 1, 1)
    assert whole(data, "x").ravel().tolist() == [1, 256, 257, 65535]
    assert whole(data, "x").dtype == np.uint16


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (np.full((2, 2, 2), 0.5), "for a probability map, give `threshold:`"),
        (np.full((2, 2, 2), -1, np.int16), "from -1 to -1; 0 to 65535"),
        (np.full((2, 2, 2), 65536, np.int32), "65536"),
        (np.full((2, 2, 2), np.nan), "NaN or infinite"),
        (np.full((2, 2, 2), np.inf), "NaN or infinite"),
    ],
)
def test_what_is_no_label_map_is_refused(data, told):
    with pytest.raises(SourceError, match=rf"m\.nii: .*{told}"):
        whole(data, "m.nii")


# Blocks and structures


def labelled(kind=np.uint8):
    data = np.zeros((6, 5, 4), kind)
    data[1:3, 2:5, 0] = 1
    data[5, 4, 3] = 3
    data[0, 0, 1:3] = 2
    return data


HAND = {
    1: (slice(1, 3), slice(2, 5), slice(0, 1)),
    2: (slice(0, 1), slice(0, 1), slice(1, 3)),
    3: (slice(5, 6), slice(4, 5), slice(3, 4)),
}


@pytest.mark.parametrize("kind", [np.uint8, np.uint16])
@pytest.mark.parametrize(
    "laid",
    [
        np.ascontiguousarray,
        np.asfortranarray,
        lambda a: np.asfortranarray(a[::-1])[::-1],
        lambda a: np.ascontiguousarray(a[:, ::-1, ::-1].transpose(2, 0, 1)).transpose(1, 2, 0)[
            :, ::-1, ::-1
        ],
        lambda a: np.repeat(a, 2, axis=0)[::2],
    ],
    ids=["C", "Fortran", "flipped", "permuted", "stepped"],
)
def test_blocks_in_any_memory_order(laid, kind):
    assert blocks(laid(labelled(kind))) == HAND


def test_blocks_of_nothing_of_everything_and_of_noise():
    assert blocks(np.zeros((3, 3, 3), np.uint8)) == {}
    assert blocks(np.ones((1, 1, 1), np.uint8)) == {1: (slice(0, 1),) * 3}
    full = np.full((40, 9, 7), 65535, np.uint16)
    assert blocks(full) == {65535: (slice(0, 40), slice(0, 9), slice(0, 7))}


@settings(max_examples=100, deadline=None)
@given(
    arrays(
        np.uint8,
        st.tuples(*[st.integers(1, 9)] * 3),
        elements=st.sampled_from([0] * 6 + [1, 2]),
        fill=st.just(0),
    ),
    st.permutations(range(3)),
)
def test_blocks_against_brute_force(data, order):
    seen = data.transpose(order)[::-1]
    expected = {
        int(v): tuple(slice(int(axis.min()), int(axis.max()) + 1) for axis in np.nonzero(seen == v))
        for v in np.unique(seen)
        if v
    }
    assert blocks(seen) == expected


def test_a_structure_is_a_union_of_values():
    data = labelled()
    mask, block = structure(data, (1, 3), blocks(data))
    assert block == (slice(1, 6), slice(2, 5), slice(0, 4))
    np.testing.assert_array_equal(mask, np.isin(data[block], (1, 3)))


def test_missing_values_are_left_out_and_none_mean_any():
    data = labelled()
    at = blocks(data)
    mask, block = structure(data, (2, 9), at)
    assert block == HAND[2]
    assert mask.all()
    mask, block = structure(data, (), at)
    assert block == whole_block(data)
    assert mask.sum() == (data > 0).sum()
    assert structure(data, (9,), at) is None
    assert structure(np.zeros((2, 2, 2), np.uint8), (), {}) is None


def test_background_is_never_a_structure():
    data = labelled()
    mask, _ = structure(data, (0, 1, 3), blocks(data))
    assert mask.sum() == 7


# Components


def test_corners_connect():
    mask = np.zeros((4, 4, 4), bool)
    mask[0, 0, 0] = mask[1, 1, 1] = mask[3, 3, 3] = True
    found = parts(mask)
    assert [(c.number, c.voxels) for c in found] == [(1, 2), (2, 1)]
    assert found[0].block == (slice(0, 2),) * 3


def test_components_go_by_size_and_dust_is_counted():
    mask = np.zeros((9, 3, 3), bool)
    mask[0, 0, 0] = True
    mask[2:4, 0, 0] = True
    mask[5:9, 0, 0] = True
    found, dust = components(mask, (slice(10, 19), slice(20, 23), slice(30, 33)), 2)
    assert dust == 1
    assert [(c.number, c.voxels, c.block) for c in found] == [
        (1, 4, (slice(15, 19), slice(20, 21), slice(30, 31))),
        (2, 2, (slice(12, 14), slice(20, 21), slice(30, 31))),
    ]


@pytest.mark.parametrize("laid", [np.ascontiguousarray, np.asfortranarray], ids=["C", "Fortran"])
def test_equals_keep_the_order_of_their_first_voxel(laid):
    mask = np.zeros((3, 3, 3), bool)
    mask[0, 0, 2] = mask[0, 2, 0] = mask[2, 0, 0] = True
    assert [tuple(s.start for s in c.block) for c in parts(laid(mask))] == [
        (0, 0, 2),
        (0, 2, 0),
        (2, 0, 0),
    ]


# Sections


def test_sections_of_an_l_shape():
    mask = np.zeros((2, 3, 1), bool)
    mask[0, :, 0] = mask[1, 0, 0] = True
    (component,) = components(mask, (slice(4, 6), slice(7, 10), slice(2, 3)), 1)[0]
    across = sections(component)
    assert across[0].numbers.tolist() == [4, 5]
    assert across[0].pixels.tolist() == [3, 1]
    assert across[0].spans.tolist() == [[[7, 10], [2, 3]], [[7, 8], [2, 3]]]
    assert across[1].spans.tolist() == [[[4, 6], [2, 3]], [[4, 5], [2, 3]], [[4, 5], [2, 3]]]
    assert across[2].pixels.tolist() == [4]
    assert all(found.plain.all() for found in across.values())


@settings(max_examples=200, deadline=None)
@given(
    arrays(
        np.bool_,
        st.tuples(*[st.integers(1, 7)] * 3),
        elements=st.sampled_from([True, False, False]),
        fill=st.just(False),
    )
)
def test_sections_against_brute_force(mask):
    for component in parts(mask):
        for axis, found in sections(component).items():
            where = np.zeros(mask.shape, bool)
            where[component.block] = component.mask
            slices = np.moveaxis(where, axis, 0)
            numbers = [n for n, section in enumerate(slices) if section.any()]
            assert found.numbers.tolist() == numbers
            assert found.pixels.tolist() == [int(slices[n].sum()) for n in numbers]
            for n, spans, plain in zip(numbers, found.spans, found.plain, strict=True):
                box = bounds(slices[n])
                assert spans.tolist() == [[box.y0, box.y1], [box.x0, box.x1]]
                if plain:
                    assert pieces(slices[n]) == (slices[n].sum(), 0, 100)


def test_pieces_and_reach():
    section = np.zeros((10, 10), bool)
    section[0:4, 0:5] = True
    assert pieces(section) == (20, 0, 100)
    section[9, 9] = True  # a speck that stretches the box to all of 10 x 10
    assert pieces(section) == (20, 1, 20)
    section[4, 5] = True  # a corner connects
    assert pieces(section) == (21, 1, 30)
    assert pieces(np.zeros((3, 3), bool)) == (0, 0, 100)


# A voxel inside


def voxel_in(mask):
    (component,) = parts(mask)
    found = inside(component, sections(component))
    assert mask[found]
    return found


def test_the_centroid_where_it_lies_inside():
    mask = np.zeros((9, 9, 9), bool)
    mask[2:7, 4:7, 1:8] = True
    assert voxel_in(mask) == (4, 5, 4)


def test_the_deepest_voxel_of_a_c_shape():
    mask = np.zeros((11, 11, 5), bool)
    mask[0:11, 0:5] = mask[0:2] = mask[9:11] = True
    mask[:, 0:2] = True
    mask[2:9, 2:] = False  # a C of thin arms
    mask[0:5, 0:5] = True  # with one thick end
    assert voxel_in(mask) == (2, 2, 2)


def test_deep_inside_a_large_ring_and_on_a_large_shell():
    i, j, k = np.indices((90, 90, 40))
    radius = np.hypot(i - 44.5, j - 44.5)
    i, j, _ = voxel_in((radius > 20) & (radius < 44))
    assert 28 < np.hypot(i - 44.5, j - 44.5) < 36
    shell = (np.abs(radius - 30) < 0.8) & (k < 1000)
    voxel_in(shell)
