"""Names and dates of DICOM headers reach nothing that is written or said."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pydicom
import pytest
import yaml
from pydicom.datadict import DicomDictionary, keyword_dict

from medsg_build.cli import app
from tests import dicom_files

MARKER = "MARKER"
WORDS = {"LO", "PN", "SH", "ST", "LT", "UT", "UC"}
KEPT = {"SpecificCharacterSet", "SegmentLabel"}  # what a structure is called is for the recipe


def marked(ds: pydicom.Dataset) -> pydicom.Dataset:
    """Every free text of the standard that an image can carry says MARKER; dates are 19991231."""
    for keyword in ("PatientBirthDate", "StudyDate", "SeriesDate", "AcquisitionDate"):
        setattr(ds, keyword, "19991231")
    for keyword, tag in keyword_dict.items():
        kind, count = DicomDictionary[tag][:2]
        free = kind in WORDS and count.startswith("1") and tag >> 16 in (8, 16, 24, 32)
        if free and keyword not in KEPT and keyword not in ds:
            setattr(ds, keyword, MARKER)
    ds.PatientName, ds.PatientID = f"{MARKER}^NAME", f"{MARKER}-ID"
    return ds


def test_no_marker_of_a_header_comes_out(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("MEDSG_CACHE", str(tmp_path / "cache"))
    data = tmp_path / "data"
    rng = np.random.default_rng(0)
    body = rng.integers(900, 1100, (12, 32, 32)).astype(np.uint16)
    body[3:9, 8:24, 6:20] = 1900
    slices = []
    for k, pixels in enumerate(body):
        ds = dicom_files.ct(k, pixels, PixelSpacing=[1, 1], RescaleIntercept=-1000, RescaleSlope=1)
        slices.append(marked(ds))
        dicom_files.save(ds, data / "good" / "ct" / f"{k}.dcm")
        if k != 5:
            dicom_files.save(ds, data / "gap" / "ct" / f"{k}.dcm")
    planes = [(body[k] == 1900).astype(np.uint8) for k in range(3, 9)]
    groups = [dicom_files.frame_at(slices[k].ImagePositionPatient, 1) for k in range(3, 9)]
    seg = dicom_files.segmentation(np.stack(planes), groups, labels=("organ",))
    seg.SharedFunctionalGroupsSequence = dicom_files.shared(spacing=(1, 1))
    for name in ("good", "gap"):
        dicom_files.save(marked(seg), data / name / "seg.dcm")
    (tmp_path / "hospital.yaml").write_text(
        yaml.safe_dump(
            {
                "name": "hospital", "modality": "CT",
                "layout": {"image": "{case}/ct/", "mask": "{case}/seg.dcm"},
                "labels": {"Liver": "organ"},
                "entry": {"title": "Ours", "citation": "none",
                          "licence": {"name": "none", "redistribution": "no"}},
            }
        )
    )  # fmt: skip
    (tmp_path / "bench.yaml").write_text(
        "name: bench\ntitle: Ours\ndatasets: [hospital]\ntasks: {ot: {quota: 2}, vcg: {quota: 2}}\n"
    )

    def run(*words: object) -> None:
        with pytest.raises(SystemExit) as left:
            app([str(word) for word in words])
        assert left.value.code in (0, None), capsys.readouterr().err

    run("generate", "--recipe", tmp_path / "bench.yaml", "--source", f"hospital={data}",
        "--out", tmp_path / "release")  # fmt: skip
    run("slice", tmp_path / "hospital.yaml", tmp_path / "slices", "--source", data)
    said = "".join(capsys.readouterr())
    assert "skipped hospital/gap" in said
    assert "missing slice" in said
    out = [
        path for folder in ("release", "slices", "cache") for path in (tmp_path / folder).rglob("*")
    ]
    assert any(path.suffix == ".parquet" for path in out)
    assert any(path.suffix == ".png" for path in out)
    forbidden = [MARKER.encode(), b"19991231", slices[0].SOPInstanceUID.encode()]
    for path in out:
        held = path.read_bytes() if path.is_file() else b""
        if path.suffix == ".parquet":  # compressed
            table = pq.read_table(path)
            held = f"{table.to_pylist()}{table.schema.metadata}".encode()
        assert not any(word in held for word in forbidden), path
        assert MARKER not in path.name
    assert MARKER not in said
    assert "19991231" not in said
