"""Files of other programs: what they are is said, and the command that is printed makes a file that is read."""

import re
import shlex
import struct
import subprocess
import sys

import pytest

from pytest_genderbias import load_model, measure
from pytest_genderbias.errors import ModelError


def test_the_command_for_published_answers_of_bbq_makes_a_file_that_is_measured(shared_data, tmp_path):
    published = shared_data / "bbq" / "unifiedqa_predictions_Religion.jsonl.gz"
    with pytest.raises(ModelError, match="BBQ's answers by its authors") as refused:
        load_model(str(published))
    assert "unifiedqa-t5-11b_pred_race, unifiedqa-t5-11b_pred_qonly, unifiedqa-t5-11b_pred_arc" in str(refused.value)
    command, _, name = re.search(r"answers: (python .*)", str(refused.value))[1].rpartition(" > ")
    words = shlex.split(command)
    with (tmp_path / name).open("w") as file:
        subprocess.run([sys.executable, *words[1:]], stdout=file, check=True)
    found = measure("bbq", str(tmp_path / name), data=shared_data, category="religion", cache=None)
    assert round(found.values["s_amb"], 4) == 0.1433
    assert round(found.values["accuracy_ambiguous"], 4) == 0.65


def test_binary_vectors_are_told_apart_with_what_converts_them(tmp_path):
    word2vec, fasttext, other = (tmp_path / f"{name}.bin" for name in ("word2vec", "fast text", "other"))
    word2vec.write_bytes(b"2 3\n" + b"".join(w + b" " + struct.pack("<3f", 1, 2, 3) + b"\n" for w in (b"he", b"she")))
    fasttext.write_bytes(struct.pack("<ii", 793712314, 12) + bytes(80))
    other.write_bytes(bytes(80))
    with pytest.raises(ModelError, match="word2vec's binary format") as refused:
        load_model(str(word2vec))
    code = shlex.split(re.search(r"python (-c .*) \(pip install gensim\)", str(refused.value))[1])[1]
    compile(code, "advice", "exec")
    assert f'"{tmp_path / "word2vec.txt"}"' in code
    with pytest.raises(ModelError, match="model of fastText") as refused:
        load_model(str(fasttext))
    words = shlex.split(re.search(r"fasttext print-.*", str(refused.value))[0])
    assert words == [
        "fasttext",
        "print-word-vectors",
        str(fasttext),
        "<",
        "words.txt",
        ">",
        str(tmp_path / "fast text.vec"),
    ]
    with pytest.raises(ModelError, match="the kind of the file is unknown"):
        load_model(str(other))
