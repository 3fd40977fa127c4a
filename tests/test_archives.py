"""Unpacking: what is honest arrives whole, what is hostile leaves nothing."""

import bz2
import gzip
import io
import lzma
import os
import stat
import struct
import tarfile
import zipfile
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from medsg_build.errors import RecipeError, SourceError
from medsg_build.fetch import archives
from medsg_build.fetch.archives import is_archive, unpacked

FILES = {"a.txt": b"one", "deep/er/b.bin": bytes(range(256)) * 9000, "empty": b""}
TAR = {".tar": bytes, ".tar.gz": gzip.compress, ".tgz": gzip.compress, ".tar.bz2": bz2.compress,
       ".tar.xz": lzma.compress, ".txz": lzma.compress}  # fmt: skip


def zipped(files=FILES, method=zipfile.ZIP_DEFLATED):
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w", method) as file:
        for name, data in files.items():
            file.writestr(name, data)
    return raw.getvalue()


def tarred(*members, form=tarfile.PAX_FORMAT):
    """Each member: (name, data), or (name, data, fields of its header)."""
    raw = io.BytesIO()
    with tarfile.open(fileobj=raw, mode="w", format=form) as file:
        for name, data, *fields in members:
            info = tarfile.TarInfo(name)
            info.size = len(data)
            for key, value in (fields[0] if fields else {}).items():
                setattr(info, key, value)
            file.addfile(info, io.BytesIO(data))
    return raw.getvalue()


def found(folder):
    return {
        p.relative_to(folder).as_posix(): p.read_bytes() for p in folder.rglob("*") if p.is_file()
    }


@pytest.fixture
def refused(tmp_path):
    """Unpack bytes that must be refused with one line, and leave the disk as it was."""

    def check(raw, match, name="bad.zip", **options):
        archive = tmp_path / name
        archive.write_bytes(raw)
        with pytest.raises(SourceError, match=match) as caught:
            unpacked(archive, tmp_path / "out" / "set", **options)
        assert str(caught.value).startswith(f"{archive}: ")
        assert "\n" not in str(caught.value)
        archive.unlink()
        assert [p.name for p in tmp_path.rglob("*")] == ["out"]

    return check


# What is honest


@pytest.mark.parametrize("method", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2])
def test_zip(tmp_path, method):
    (tmp_path / "a.ZIP").write_bytes(zipped(method=method))
    into = tmp_path / "new" / "set"
    assert unpacked(tmp_path / "a.ZIP", into) == into
    assert found(into) == FILES
    assert [p.name for p in into.parent.iterdir()] == ["set"]


@pytest.mark.parametrize("suffix", TAR)
@pytest.mark.parametrize("form", [tarfile.PAX_FORMAT, tarfile.GNU_FORMAT, tarfile.USTAR_FORMAT])
def test_tar(tmp_path, suffix, form):
    archive = tmp_path / f"a{suffix}"
    archive.write_bytes(TAR[suffix](tarred(*FILES.items(), form=form)))
    assert found(unpacked(archive, tmp_path / "set")) == FILES


def test_long_and_foreign_names(tmp_path):
    files = {f"{'long' * 30}/{'name' * 40}.txt": b"x", "bild-ä.png": b"y", "图像.png": b"z"}
    for form in (tarfile.PAX_FORMAT, tarfile.GNU_FORMAT):
        (tmp_path / "a.tar").write_bytes(tarred(*files.items(), form=form))
        assert found(unpacked(tmp_path / "a.tar", tmp_path / str(form))) == files
    (tmp_path / "a.zip").write_bytes(zipped(files))
    assert found(unpacked(tmp_path / "a.zip", tmp_path / "zip")) == files


def test_a_gz_that_a_browser_has_unpacked(tmp_path):
    (tmp_path / "a.tar.gz").write_bytes(tarred(("a", b"1")))
    assert found(unpacked(tmp_path / "a.tar.gz", tmp_path / "set")) == {"a": b"1"}


def test_names_are_cleaned(tmp_path):
    members = [("./", b"", {"type": tarfile.DIRTYPE}), ("./d//a", b"1"), ("w\\b", b"2")]
    (tmp_path / "a.tar").write_bytes(tarred(*members, ("none", b"", {"type": tarfile.DIRTYPE})))
    into = unpacked(tmp_path / "a.tar", tmp_path / "set")
    assert found(into) == {"d/a": b"1", "w/b": b"2"}
    assert (into / "none").is_dir()


def test_a_finished_folder_is_taken_as_it_is(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "set" / "there").touch()
    assert unpacked(tmp_path / "gone.zip", tmp_path / "set") == tmp_path / "set"


def test_an_empty_folder_is_filled(tmp_path):
    (tmp_path / "set").mkdir()
    (tmp_path / "a.zip").write_bytes(zipped())
    assert found(unpacked(tmp_path / "a.zip", tmp_path / "set")) == FILES


def test_modes_are_not_taken_over(tmp_path):
    (tmp_path / "a.tar").write_bytes(tarred(("a", b"1", {"mode": 0o6777})))
    into = unpacked(tmp_path / "a.tar", tmp_path / "set")
    assert stat.S_IMODE((into / "a").stat().st_mode) == 0o644
    assert stat.S_IMODE(into.stat().st_mode) == 0o755


def test_archives_inside_stay(tmp_path):
    (tmp_path / "a.zip").write_bytes(zipped({"in.zip": zipped()}))
    assert list(found(unpacked(tmp_path / "a.zip", tmp_path / "set"))) == ["in.zip"]


def test_links_to_files_inside_become_copies(tmp_path):
    members = [
        ("d/soft", b"", {"type": tarfile.SYMTYPE, "linkname": "../d/chain"}),
        ("d/chain", b"", {"type": tarfile.SYMTYPE, "linkname": "../real"}),
        ("real", b"data"),
        ("hard", b"", {"type": tarfile.LNKTYPE, "linkname": "real"}),
    ]
    (tmp_path / "a.tar").write_bytes(tarred(*members))
    into = unpacked(tmp_path / "a.tar", tmp_path / "set")
    assert found(into) == dict.fromkeys(["d/soft", "d/chain", "real", "hard"], b"data")
    assert not any(path.is_symlink() for path in into.rglob("*"))


def test_a_link_in_a_zip(tmp_path):
    info = zipfile.ZipInfo("soft")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    (tmp_path / "a.zip").write_bytes(zipped({"real": b"data", info: b"real"}))
    assert found(unpacked(tmp_path / "a.zip", tmp_path / "set")) == {
        "real": b"data",
        "soft": b"data",
    }


def test_suffixes(tmp_path):
    names = ["a.zip", "B.TAR", "c.tar.gz", "d.tgz", "e.tar.bz2", "f.tar.xz"]
    assert all(is_archive(tmp_path / name) for name in names)
    assert not any(is_archive(tmp_path / name) for name in ["a.nii.gz", "b.xz", "zip", "c.rar"])


# What is hostile

NAMES = {
    "../up": "climbs", "a/../../up": "climbs", "a\\..\\..\\up": "climbs", "/etc/x": "absolute",
    "C:\\x": "absolute", "c:x": "absolute", "\\\\host\\x": "absolute", "a\nb": "control",
    "a\x1b[31m": "control", "x" * 300: "longer", "/".join("abcdefgh" * 300): "longer",
}  # fmt: skip


@pytest.mark.parametrize(("name", "fault"), NAMES.items(), ids=range(len(NAMES)))
def test_names(refused, name, fault):
    refused(zipped({"good": b"1", name: b"2"}), fault)
    refused(tarred(("good", b"1"), (name, b"2")), fault, "bad.tar")


def test_a_name_cut_by_a_nul(refused):
    raw = zipped({"goodX../../up": b"1"}).replace(b"goodX", b"good\0")
    refused(raw, "control")


@pytest.mark.parametrize("other", ["A.txt", "./a.txt", "a.txt", "b/../a.txt", "a.txt/in"])
def test_names_that_clash(refused, other):
    refused(tarred(("a.txt", b"1"), (other, b"2")), "twice|clashes|climbs", "bad.tar")
    if other != "a.txt":  # zipfile warns when it writes the same name
        refused(zipped({"a.txt": b"1", other: b"2"}), "twice|clashes|climbs")


def test_folders_that_clash(refused):
    refused(zipped({"Data/a": b"1", "data/b": b"2"}), "clashes with 'Data'")
    refused(zipped({"e\u0301": b"1", "\u00e9": b"2"}), "twice")


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE])
@pytest.mark.parametrize(
    "target", ["../../x", "/etc/passwd", "..\\..\\x", "c:\\x", "gone", "", "l"]
)
def test_links(refused, kind, target):
    member = ("l", b"", {"type": kind, "linkname": target})
    refused(tarred(member, ("real", b"1")), "links", "bad.tar")


def test_a_file_written_through_a_linked_folder(refused):
    member = ("d", b"", {"type": tarfile.SYMTYPE, "linkname": "."})
    refused(tarred(member, ("d/in", b"1")), "clashes", "bad.tar")


def test_a_link_out_of_a_zip(refused):
    info = zipfile.ZipInfo("soft")
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    refused(zipped({"real": b"data", info: b"../../etc"}), "links outside")


@pytest.mark.parametrize("kind", [tarfile.CHRTYPE, tarfile.BLKTYPE, tarfile.FIFOTYPE, b"9"])
def test_devices(refused, kind):
    refused(tarred(("a", b"1"), ("dev", b"", {"type": kind})), "device", "bad.tar")


def test_a_pipe_in_a_zip(refused):
    info = zipfile.ZipInfo("pipe")
    info.external_attr = stat.S_IFIFO << 16
    refused(zipped({info: b""}), "no file, folder or link")


def directory(raw, field, value, form="<I"):
    """A zip whose central directory (first entry) has another value at an offset."""
    raw = bytearray(raw)
    struct.pack_into(form, raw, raw.index(b"PK\x01\x02") + field, value)
    return bytes(raw)


def test_encrypted(refused):
    refused(directory(zipped(), 8, 1, "<H"), "'a.txt' is encrypted")


def test_sizes_that_lie(refused):
    raw = zipped({"a": b"0123456789" * 10})
    refused(directory(raw, 24, 5), "'a' unpacks to more than the 5 bytes|'a' is damaged")
    six = directory(directory(raw, 24, 5), 16, zlib.crc32(b"012345"))
    refused(six, "'a' unpacks to more than the 5 bytes")
    refused(directory(raw, 24, 120), "damaged|cut off")
    refused(directory(raw, 24, 10**9), "more than its method")
    refused(directory(zipped({"a": b"12345"}, zipfile.ZIP_STORED), 24, 4), "more than the 4")


def test_a_checksum_that_lies(refused):
    refused(directory(zipped({"a": b"12345"}), 16, 7), "'a' is damaged")


def test_a_lying_size_with_a_fitting_checksum(refused):
    raw = directory(zipped({"a": b"0123456789"}), 24, 5)
    refused(directory(raw, 16, zlib.crc32(b"01234")), "damaged")


def test_members_that_share_their_bytes(refused):
    """The bomb of many entries over one stream (Fifield 2019)."""
    raw = zipped({"a": os.urandom(1000)}, zipfile.ZIP_STORED)
    start = raw.index(b"PK\x01\x02")
    end = raw.index(b"PK\x05\x06")
    entries = b"".join(raw[start:end][:-1] + bytes([97 + n]) for n in range(5))
    tail = bytearray(raw[end:])
    struct.pack_into("<HHI", tail, 8, 5, 5, len(entries))
    refused(raw[:start] + entries + bytes(tail), "overlap")


def test_too_large(refused):
    zeros = bytes(3 << 20)
    for name, raw in [
        ("bad.zip", zipped({"a": zeros, "b": zeros})),
        ("bad.tar", tarred(("a", zeros), ("b", zeros))),
        ("bad.tar.gz", gzip.compress(tarred(("a", zeros), ("b", zeros)))),
    ]:
        refused(raw, "needs", name, most=5 << 20)
    link = ("l", b"", {"type": tarfile.LNKTYPE, "linkname": "a"})
    refused(tarred(("a", zeros), link), "needs", "bad.tar", most=5 << 20)


def test_more_than_the_disk_holds(refused, monkeypatch):
    monkeypatch.setattr(
        archives.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 1000})()
    )
    refused(zipped({"a": os.urandom(2000)}), "1000 are allowed or free")


def test_a_bomb(refused):
    refused(bz2.compress(tarred(("a", bytes(40 << 20)))), "believed", "bad.tar.bz2")
    refused(zipped({"a": bytes(40 << 20)}, zipfile.ZIP_BZIP2), "more than its method")


def test_a_bomb_after_the_end(refused):
    raw = tarred(("a", b"1")) + bytes(40 << 20)
    refused(bz2.compress(raw), "believed", "bad.tar.bz2")


def test_a_huge_header(refused):
    """A long name is taken into memory whole, so its size is not believed."""
    info = tarfile.TarInfo("x")
    info.type, info.size = tarfile.GNUTYPE_LONGNAME, 1 << 40
    refused(
        info.tobuf(tarfile.GNU_FORMAT) + bytes(1024), "a header of 1099511627776 bytes", "bad.tar"
    )
    info.type, info.size = tarfile.XHDTYPE, -512
    refused(info.tobuf(tarfile.GNU_FORMAT) + bytes(1024), "no whole tar", "bad.tar")


def test_a_size_that_leads_back(refused):
    raw = tarred(("a", b"1"), ("b", b"2", {"pax_headers": {"size": "-1024"}}))
    refused(raw, "no whole tar|negative", "bad.tar")


@pytest.mark.parametrize("suffix", TAR)
def test_truncated_tar(refused, suffix):
    whole = tarred(*FILES.items())
    packed = TAR[suffix](whole)
    for length in (0, 5, len(packed) // 2, len(packed) - 5):
        if suffix != ".tar" or length != len(packed) - 5:  # a tar's last blocks are padding
            refused(packed[:length], "whole|damaged|cut off", f"bad{suffix}")


def test_a_tar_cut_between_members(refused):
    """Where tarfile sees the end of the archive."""
    refused(tarred(("a", b"1"), ("b", b"2"))[:1024], "no whole tar", "bad.tar")


def test_truncated_zip(refused):
    raw = zipped()
    for length in (0, 10, len(raw) // 2, len(raw) - 5):
        refused(raw[:length], "no whole zip")


def test_a_page_instead_of_a_file(refused):
    refused(b"<html>quota exceeded</html>" * 40, "no whole zip")
    refused(b"<html>quota exceeded</html>" * 40, "no whole tar", "bad.tar.gz")


def test_nothing_inside(refused):
    refused(zipped({}), "holds no files")
    refused(tarred(), "holds no files", "bad.tar")


def test_what_is_no_archive(tmp_path):
    (tmp_path / "a.rar").touch()
    with pytest.raises(SourceError, match="no archive by its name"):
        unpacked(tmp_path / "a.rar", tmp_path / "set")
    with pytest.raises(SourceError, match="not found"):
        unpacked(tmp_path / "gone.zip", tmp_path / "set")
    (tmp_path / "file").touch()
    with pytest.raises(RecipeError, match="is a file"):
        unpacked(tmp_path / "gone.zip", tmp_path / "file")


SMALL = {"a.txt": b"one" * 40, "d/b": bytes(range(256))}
PLAIN = tarred(*SMALL.items())
LINKED = tarred(*SMALL.items(), ("l" * 150, b"", {"type": tarfile.LNKTYPE, "linkname": "a.txt"}))
WHOLE = {
    "x.zip": zipped(SMALL),
    "y.zip": zipped(SMALL, zipfile.ZIP_BZIP2),
    "x.tar": PLAIN,
    "z.tar": LINKED,
    "x.tar.gz": gzip.compress(PLAIN),
    "x.tar.xz": lzma.compress(PLAIN),
}


@settings(max_examples=200, deadline=None)
@given(data=st.data(), name=st.sampled_from(sorted(WHOLE)))
def test_damage_is_told_or_harmless(tmp_path_factory, data, name):
    raw = bytearray(WHOLE[name])
    for _ in range(data.draw(st.integers(1, 6))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    raw = raw[: data.draw(st.integers(0, len(raw)))] if data.draw(st.booleans()) else raw
    folder = tmp_path_factory.mktemp("fuzz")
    (folder / name).write_bytes(raw)
    try:
        unpacked(folder / name, folder / "in" / "set")
    except SourceError:
        assert not any((folder / "in").iterdir())
    assert {p.name for p in folder.iterdir()} <= {name, "in"}
