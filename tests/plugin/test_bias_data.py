"""``--bias-data``: the folder of data sets, which pytest may take for a test path."""

from __future__ import annotations


def test_a_folder_after_a_space_is_no_test_path(project, tmp_path):
    """pytest looks for a project's settings before it knows our flags.

    With a root elsewhere it reads every folder above the project, too: without ``--confcutdir`` those of all tests of
    the run.
    """
    elsewhere = tmp_path / "elsewhere"
    (elsewhere / "data").mkdir(parents=True)
    result = project.runpytest("--bias-data", str(elsewhere / "data"), "--confcutdir=.")
    result.stdout.fnmatch_lines([f"*pytest took a folder after a space*write --bias-data={elsewhere / 'data'}*"])
    result = project.runpytest(f"--bias-data={elsewhere / 'data'}")
    result.stdout.no_fnmatch_line("*after a space*")
    result = project.runpytest("--bias-data", "nowhere")
    result.stderr.fnmatch_lines(["*--bias-data: no folder *nowhere; its layout is in docs/reference/data.md*"])
