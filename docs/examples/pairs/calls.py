"""What is asked of each server. Some of it only one of its releases knows; each is asked all the same."""

from __future__ import annotations

from typing import Any

Call = tuple[str, dict[str, Any]]


def call(tool: str, /, **arguments: Any) -> Call:
    return "tools/call", {"name": tool, "arguments": arguments}


def watched(tool: str, /, **arguments: Any) -> Call:
    """A call whose progress is asked for."""
    return "tools/call", {"name": tool, "arguments": arguments, "_meta": {"progressToken": tool}}


def read(uri: str) -> Call:
    return "resources/read", {"uri": uri}


def prompt(name: str, /, **arguments: str) -> Call:
    return "prompts/get", {"name": name, "arguments": arguments}


TIME = [
    call("get_current_time", timezone="UTC"),
    call("get_current_time", timezone="Asia/Tokyo"),
    call("convert_time", source_timezone="UTC", time="12:00", target_timezone="Asia/Tokyo"),
    call("convert_time", source_timezone="Asia/Kolkata", time="23:30", target_timezone="Asia/Kathmandu"),
    # These fail, one way or another.
    call("get_current_time", timezone="Middle/Earth"),
    call("convert_time", source_timezone="UTC", time="25:99", target_timezone="Asia/Tokyo"),
    call("convert_time", source_timezone="UTC", time="12:00"),
    call("get_current_time"),
    call("tell_time"),
]
GIT = [
    call("git_status", repo_path="repo"),
    call("git_diff_unstaged", repo_path="repo"),
    call("git_diff_unstaged", repo_path="repo", context_lines=0),
    call("git_diff_staged", repo_path="repo"),
    call("git_diff", repo_path="repo", target="HEAD~1"),
    call("git_log", repo_path="repo"),
    call("git_log", repo_path="repo", max_count=1),
    call("git_show", repo_path="repo", revision="HEAD"),
    call("git_branch", repo_path="repo", branch_type="local"),
    call("git_create_branch", repo_path="repo", branch_name="verse"),
    call("git_checkout", repo_path="repo", branch_name="verse"),
    call("git_add", repo_path="repo", files=["poem.txt"]),
    call("git_diff_staged", repo_path="repo"),
    call("git_reset", repo_path="repo"),
    call("git_add", repo_path="repo", files=["poem.txt"]),
    call("git_commit", repo_path="repo", message="Line 3"),
    call("git_log", repo_path="repo", max_count=1),
    call("git_show", repo_path="repo", revision="HEAD"),
    # These only some releases allow.
    call("git_commit", repo_path="repo", message="Nothing"),
    call("git_add", repo_path="repo", files=[]),
    call("git_create_branch", repo_path="repo", branch_name="verse"),
    call("git_checkout", repo_path="repo", branch_name="-"),
    call("git_status", repo_path="another"),
    call("git_init", repo_path="third"),
    # These fail.
    call("git_show", repo_path="repo", revision="nowhere"),
    call("git_log", repo_path="repo", max_count="many"),
    call("git_status"),
    call("git_blame", repo_path="repo"),
]
EVERYTHING = [
    call("echo", message="Hello"),
    call("add", a=2, b=3.5),
    call("get-sum", a=2, b=3.5),
    watched("longRunningOperation", duration=1, steps=4),
    watched("trigger-long-running-operation", duration=1, steps=4),
    call("sampleLLM", prompt="Say hello", maxTokens=20),
    call("trigger-sampling-request", prompt="Say hello", maxTokens=20),
    call("startElicitation"),
    call("trigger-elicitation-request"),
    call("get-roots-list"),
    call("getTinyImage"),
    call("get-tiny-image"),
    call("annotatedMessage", messageType="error"),
    call("get-annotated-message", messageType="error"),
    call("structuredContent", location="Chicago"),
    call("get-structured-content", location="Chicago"),
    call("getResourceLinks", count=2),
    call("get-resource-links", count=2),
    call("getResourceReference", resourceId=1),
    call("get-resource-reference", resourceType="Text", resourceId=1),
    call("simulate-research-query", topic="tapes"),
    read("test://static/resource/1"),
    read("test://static/resource/2"),
    read("demo://resource/dynamic/text/1"),
    read("demo://resource/static/document/startup.md"),
    prompt("simple_prompt"),
    prompt("simple-prompt"),
    prompt("complex_prompt", temperature="0.5"),
    prompt("args-prompt", city="Bern"),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "complex_prompt"},
                             "argument": {"name": "style", "value": "f"}}),
    ("completion/complete", {"ref": {"type": "ref/prompt", "name": "completable-prompt"},
                             "argument": {"name": "department", "value": "E"}}),
    ("logging/setLevel", {"level": "error"}),
    ("ping", {}),
    # These fail.
    call("echo"),
    call("echo", message=5),
    call("shout", message="Hello"),
    read("test://static/resource/0"),
    prompt("no-such-prompt"),
]  # fmt: skip
EDIT = {"oldText": "Violets are blue", "newText": "Violets are violet"}
FILESYSTEM = [
    call("list_allowed_directories"),
    call("list_directory", path="."),
    call("list_directory_with_sizes", path="."),
    call("directory_tree", path="."),
    call("read_file", path="poem.txt"),
    call("read_file", path="poem.txt", head=1),
    call("read_text_file", path="poem.txt", tail=1),
    call("read_multiple_files", paths=["poem.txt", "missing.txt"]),
    call("get_file_info", path="poem.txt"),
    call("search_files", path=".", pattern="poem"),
    call("search_files", path=".", pattern="**/*.txt"),
    call("write_file", path="draft.txt", content="Tapes are black\n"),
    call("edit_file", path="poem.txt", edits=[EDIT], dryRun=True),
    call("edit_file", path="poem.txt", edits=[EDIT]),
    call("create_directory", path="old"),
    call("move_file", source="draft.txt", destination="old/draft.txt"),
    call("list_directory", path="old"),
    # These fail.
    call("read_file", path="missing.txt"),
    call("read_file", path="../outside.txt"),
    call("read_file"),
    call("read_multiple_files", paths=[]),
    call("edit_file", path="poem.txt", edits=[{"oldText": "no such line", "newText": ""}]),
    call("move_file", source="poem.txt", destination="old/draft.txt"),
    call("delete_file", path="poem.txt"),
]
CALLS: dict[str, list[Call]] = {"time": TIME, "git": GIT, "everything": EVERYTHING, "filesystem": FILESYSTEM}
