"""The rule table: every kind of change, its level and its category.

Knows nothing of how changes are found. `docs/rules.md` is generated from it.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

Level = Literal["error", "warn", "info"]
Category = Literal["wire", "call", "model", "security"]

LEVELS: tuple[Level, ...] = ("error", "warn", "info")  # the worst first
CATEGORIES: tuple[Category, ...] = ("wire", "call", "model", "security")  # the last is a selection of the other rules


class Rule(NamedTuple):
    """A kind of change. `rises`: one level higher if the texts that a model reads are part of the contract."""

    id: str
    level: Level
    category: Category
    says: str
    rises: bool = False
    otherwise: Level | None = None  # a second level, and its condition
    when: str = ""
    section: str = ""


_SERVER = (
    Rule("protocol-version-removed", "error", "wire", "The server no longer speaks a protocol version."),
    Rule("protocol-version-added", "info", "wire", "The server speaks another protocol version too."),
    Rule("capability-removed", "error", "wire", "The server no longer declares a capability.",
         otherwise="warn", when="for one that the protocol does not know; info for one that never worked"),
    Rule("capability-added", "info", "wire", "The server declares another capability."),
    Rule("capability-list-changed-removed", "warn", "wire", "The server no longer announces that a list has changed."),
    Rule("capability-subscribe-removed", "error", "wire", "Resources can no longer be subscribed to."),
    Rule("extension-removed", "error", "wire", "The server no longer supports a protocol extension."),
    Rule("extension-added", "info", "wire", "The server supports another protocol extension."),
    Rule("extension-settings-changed", "warn", "wire", "The settings of a protocol extension differ."),
    Rule("server-name-changed", "warn", "call", "The server has another name."),
    Rule("server-info-changed", "info", "model",
         "The server describes itself differently: its title, its description, its website, its icons; or no name or "
         "version any more.", True),
    Rule("server-version-not-bumped", "info", "call", "There is a breaking change, but the same version number."),
    Rule("server-version-decreased", "info", "call", "There is a breaking change, but a lower version number."),
    Rule("server-major-not-bumped", "info", "call", "There is a breaking change, but the same major version."),
    Rule("instructions-changed", "warn", "model", "The server's instructions to the model differ.", True),
    Rule("instructions-removed", "warn", "model", "The server no longer has instructions to the model.", True),
)  # fmt: skip
_TOOLS = (
    Rule("tool-removed", "error", "call", "A tool is gone."),
    Rule("tool-added", "info", "call", "There is a new tool."),
    Rule("tool-renamed", "error", "call", "A tool is gone, and a new one is like it or has nearly the same name."),
    Rule("tool-order-changed", "info", "model", "The same tools are listed in another order.", True),
    Rule("tool-list-nondeterministic", "warn", "wire",
         "The list of tools changed within a session without list_changed."),
)  # fmt: skip
_INPUT = (
    Rule("input-required-property-added", "error", "call", "There is a new required argument.",
         otherwise="warn", when="where it has a default"),
    Rule("input-property-became-required", "error", "call", "An optional argument is required now.",
         otherwise="warn", when="where it has a default"),
    Rule("input-property-removed", "error", "call", "An argument is gone.",
         otherwise="warn", when="where arguments that are not in the schema are allowed, unless it was required, or a "
         "recorded call used it; info where an object takes any members now, or another alternative takes it"),
    Rule("input-optional-property-added", "info", "call", "There is a new optional argument.", True),
    Rule("input-property-became-optional", "info", "call", "A required argument is optional now.", True),
    Rule("input-type-changed", "error", "call", "An argument has another type."),
    Rule("input-type-narrowed", "error", "call", "An argument allows fewer types."),
    Rule("input-became-not-nullable", "error", "call", "An argument may no longer be null."),
    Rule("input-type-widened", "info", "call", "An argument allows more types."),
    Rule("input-enum-value-removed", "error", "call", "A value that could be chosen is gone."),
    Rule("input-became-enum", "error", "call", "An argument must be one of a few values now."),
    Rule("input-const-added", "error", "call", "An argument must have one certain value now."),
    Rule("input-enum-value-added", "info", "call", "There are more values to choose from.", True),
    Rule("input-constraint-tightened", "error", "call",
         "A limit (range, length, number of items, multiple) is narrower."),
    Rule("input-constraint-set", "error", "call", "There is a limit where there was none.",
         otherwise="info",
         when="for the limits of exact integers, which some libraries always set; once for the server"),
    Rule("input-constraint-loosened", "info", "call", "A limit is wider, or gone."),
    Rule("input-pattern-added", "error", "call", "A text must fit a pattern or format now.",
         otherwise="warn", when="for a format that few validators check"),
    Rule("input-pattern-changed", "warn", "call", "A text must fit another pattern or format."),
    Rule("input-pattern-removed", "info", "call", "A text need not fit a pattern or format any more."),
    Rule("input-additional-properties-forbidden", "error", "call",
         "Arguments beyond the schema are refused now, or must be of a narrower kind."),
    Rule("input-additional-properties-allowed", "info", "call", "Arguments beyond the schema are allowed now."),
    Rule("input-any-of-removed", "error", "call", "One of several alternatives is gone.",
         otherwise="warn", when="where another one may accept its values; info where one does"),
    Rule("input-one-of-removed", "error", "call", "One of several exclusive alternatives is gone, or there are new.",
         otherwise="warn", when="where another one may accept its values; info where one does"),
    Rule("input-all-of-added", "error", "call", "There is another condition that must hold.",
         otherwise="info", when="where it only names members that could be given before"),
    Rule("input-if-then-added", "error", "call", "There is another condition that must hold in some cases."),
    Rule("input-dependent-required-added", "error", "call", "An argument is required now where another one is given."),
    Rule("input-schema-changed", "warn", "call", "A schema differs in a way that no other rule can judge."),
    Rule("input-default-changed", "warn", "call", "Leaving an argument out means something else.",
         otherwise="info", when="where the same values are listed in another order"),
    Rule("input-header-mapping-changed", "warn", "wire", "An argument is sent in another HTTP header (x-mcp-header)."),
    Rule("schema-dialect-changed", "warn", "call", "A schema is written in another dialect of JSON Schema.",
         otherwise="info",
         when="where one side does not name its own, or no keyword means something else in it; once for the server"),
    Rule("input-property-description-changed", "info", "model", "The description of an argument differs.", True),
)  # fmt: skip
_OUTPUT = (
    Rule("output-schema-removed", "error", "call", "A tool no longer has an output schema."),
    Rule("output-schema-added", "info", "call", "A tool has an output schema now."),
    Rule("output-required-property-removed", "error", "call", "A result no longer has a member it always had."),
    Rule("output-property-became-optional", "error", "call", "A result may lack a member it always had."),
    Rule("output-became-nullable", "error", "call", "A member of a result may be null."),
    Rule("output-optional-property-removed", "warn", "call", "A result no longer has a member it could have.",
         otherwise="error", when="where a later call used it"),
    Rule("output-type-changed", "error", "call", "A member of a result has another type."),
    Rule("output-type-widened", "error", "call", "A member of a result may be of more types."),
    Rule("output-type-narrowed", "info", "call", "A member of a result is of fewer types, or always there."),
    Rule("output-property-added", "info", "call", "A result may have another member.",
         otherwise="warn", when="where the old schema allowed no others"),
    Rule("output-enum-value-added", "warn", "call", "A member of a result may have a value it never had."),
    Rule("output-any-of-added", "error", "call", "A result may look like another alternative.",
         otherwise="warn", when="where another one may have given the same; info where one did"),
    Rule("output-one-of-added", "error", "call", "A result may look like another exclusive alternative.",
         otherwise="warn", when="where another one may have given the same; info where one did"),
    Rule("output-constraint-loosened", "error", "call",
         "A limit on a result (range, length, pattern, number of items) is wider, or gone.",
         otherwise="warn", when="for a format that few validators check, and for alternatives that only named members; "
         "info for the limits of exact integers"),
    Rule("output-constraint-tightened", "info", "call", "A limit on a result is narrower."),
    Rule("output-schema-changed", "warn", "call", "A result's schema differs in a way that no other rule can judge."),
)  # fmt: skip
_METADATA = (
    Rule("tool-description-changed", "warn", "model", "The description of a tool, which models read, differs.", True),
    Rule("tool-title-changed", "info", "model", "The title of a tool differs."),
    Rule("tool-icons-changed", "info", "model", "The icons of a tool differ."),
    Rule("tool-meta-changed", "info", "model", "Something else about a tool differs."),
    Rule("tool-task-support-changed", "error", "wire", "A tool must be called as a task now, or can no longer be.",
         otherwise="info", when="where it may be called as a task now, and need not"),
    Rule("tool-became-destructive", "error", "call", "A tool may destroy something; approvals rely on this hint."),
    Rule("tool-lost-read-only", "error", "call", "A tool may change something; approvals rely on this hint."),
    Rule("tool-lost-idempotent", "warn", "call", "Calling a tool twice may do more than calling it once."),
    Rule("tool-became-open-world", "warn", "call", "A tool may talk to the world outside."),
    Rule("tool-hint-relaxed", "info", "call", "A tool promises more than before."),
)  # fmt: skip
_OTHERS = (
    Rule("resource-removed", "error", "call", "A resource is gone."),
    Rule("resource-added", "info", "call", "There is a new resource."),
    Rule("resource-template-removed", "error", "call", "A resource template is gone, or makes other URIs."),
    Rule("resource-template-added", "info", "call", "There is a new resource template."),
    Rule("template-variable-added", "error", "call", "A resource template needs another variable.",
         otherwise="info", when="for one of a query, which may be left out"),
    Rule("resource-mime-type-changed", "warn", "call", "A resource is of another media type."),
    Rule("resource-text-changed", "info", "model", "The same read of a resource returns another text.", True,
         otherwise="error", when="where it is JSON without a member that a later call used"),
    Rule("resource-description-changed", "info", "model", "The descriptive metadata of a resource differs.", True),
    Rule("prompt-removed", "error", "call", "A prompt is gone."),
    Rule("prompt-added", "info", "call", "There is a new prompt."),
    Rule("prompt-argument-required-added", "error", "call", "A prompt has a new required argument."),
    Rule("prompt-argument-became-required", "error", "call", "An optional argument of a prompt is required now."),
    Rule("prompt-argument-removed", "warn", "call", "An argument of a prompt is gone."),
    Rule("prompt-argument-relaxed", "info", "call", "A prompt has a new optional argument, or needs one less."),
    Rule("prompt-description-changed", "info", "model", "The descriptive metadata of a prompt differs.", True),
    Rule("prompt-messages-changed", "info", "model", "The same request for a prompt returns other messages.", True),
)  # fmt: skip
_APPS = (
    Rule("tool-hidden-from-model", "error", "call", "A model no longer sees a tool (`_meta.ui.visibility`)."),
    Rule("tool-hidden-from-page", "warn", "call", "The server's pages can no longer call a tool."),
    Rule("tool-visibility-widened", "info", "call", "A model or the server's pages see a tool that they did not."),
    Rule("page-origin-allowed", "warn", "call", "A page may load from, or connect to, another origin (its CSP)."),
    Rule("page-permission-added", "warn", "call", "A page asks for another permission, such as the camera."),
    Rule("page-restricted", "info", "call", "A page may load from fewer origins, or asks for fewer permissions."),
    Rule("page-script-added", "warn", "call", "A page has a script or frame of another source."),
    Rule("page-form-added", "warn", "call", "A page has a form with another target."),
    Rule("page-origin-added", "warn", "call", "A page names another origin."),
)  # fmt: skip
_SKILLS = (
    Rule("skill-removed", "error", "call", "A skill is gone."),
    Rule("skill-added", "info", "call", "There is a new skill."),
    Rule("skill-description-changed", "warn", "model",
         "The description of a skill, by which models choose it, differs.", True),
    Rule("skill-frontmatter-changed", "info", "model", "Something else in the frontmatter of a skill differs.",
         otherwise="warn", when="for the tools that it asks to be allowed"),
    Rule("skill-file-changed", "warn", "model", "A file of a skill has another digest: its content differs.", True),
    Rule("skill-file-removed", "warn", "model", "A file of a skill is gone.", True),
    Rule("skill-file-added", "info", "model", "A skill has a new file.", True),
    Rule("skill-became-dynamic", "warn", "call",
         "A skill no longer lists its files with digests: they cannot be verified, and hosts may refuse it.",
         otherwise="info", when="where it lists them now"),
)  # fmt: skip
_WORDING = (
    Rule("text-steers-model", "warn", "model",
         "New text gives a model orders: to ignore others, to keep its user in the dark, to pass secrets on."),
    Rule("text-has-hidden-characters", "warn", "model",
         "New text has characters that a model reads and people cannot see."),
    Rule("name-looks-like-another", "warn", "model", "A new name mixes scripts, or looks like another one."),
    Rule("text-carries-data-out", "warn", "model",
         "New text has a link with a placeholder for data, or to a service that collects requests."),
    Rule("schema-text-changed", "info", "model",
         "A schema text that no other rule covers differs: a title, an example, a comment, an unknown keyword, "
         "the description of a result.", True),
    Rule("definitions-grew", "info", "model",
         "The definitions of all tools grew by 1000 bytes and a tenth, or that of one by 400 bytes and a quarter."),
)  # fmt: skip
_CALLS = (
    Rule("call-ok-to-error", "error", "call", "A call that succeeded fails."),
    Rule("call-error-to-ok", "info", "call", "A call that failed succeeds."),
    Rule("call-error-code-changed", "warn", "wire", "A call fails with another code.",
         otherwise="info", when="where the protocol itself has renumbered the error"),
    Rule("call-error-message-changed", "info", "model", "A call fails with another message.", True),
    Rule("call-result-type-changed", "error", "wire", "A call no longer gives its result at once.",
         otherwise="info", when="where it gives its result at once now"),
    Rule("call-structured-shape-changed", "error", "call", "A result has lost a member, or one has another type.",
         otherwise="info",
         when="where a member was only added, member names are data, or the old output schema allows it or does "
         "not have the member, unless a later call used it"),
    Rule("call-structured-value-changed", "info", "model", "A result has another value.", True),
    Rule("call-text-changed", "info", "model", "A result has another text.", True,
         otherwise="error", when="where it is JSON without a member that a later call used"),
    Rule("call-meta-changed", "info", "model",
         "The metadata of a result differs: its annotations, or `_meta`.", True),
    Rule("call-content-type-changed", "warn", "call", "A result has content of another kind."),
    Rule("call-answer-malformed", "error", "wire", "An answer no longer follows the protocol: clients refuse it."),
    Rule("server-answer-unasked", "warn", "wire", "The server answers a request that was not made, or answers twice."),
    Rule("call-violates-output-schema", "error", "call", "A result does not fit the tool's own output schema."),
    Rule("server-request-added", "error", "wire", "During a call the server asks the client for something new."),
    Rule("server-request-changed", "warn", "call", "During a call the server asks the client for something else.",
         otherwise="info", when="for the messages to a model"),
    Rule("server-request-removed", "info", "wire", "During a call the server asks the client for less."),
    Rule("notification-missing", "warn", "wire", "A notification no longer comes.",
         otherwise="info", when="for log messages, and where progress is only less frequent"),
    Rule("notification-added", "info", "wire", "A new notification comes."),
    Rule("notification-reordered", "info", "wire", "The notifications of a call come in another order."),
    Rule("pagination-changed", "warn", "wire", "A list that came in one piece comes in pages.",
         otherwise="info", when="where it came in pages before"),
    Rule("cache-scope-widened", "warn", "wire", "An answer that only one user could cache may be cached for all."),
    Rule("cache-ttl-changed", "info", "wire", "An answer may be cached for a longer or shorter time."),
    Rule("call-slower", "info", "call", "A call takes longer than the given ratio allows."),
    Rule("call-unanswered", "error", "wire", "A call that was answered gets no answer: a crash, a hang, an early end."),
    Rule("call-missing", "warn", "call", "A recorded call was not made."),
    Rule("call-added", "info", "call", "A new call was made."),
    Rule("server-crashed", "error", "wire",
         "The server ended before the client did, or stopped answering."),
    Rule("server-exit-code-changed", "warn", "wire",
         "The server ended with another exit code than 0 after its last answer."),
)  # fmt: skip

SECTIONS: dict[str, tuple[Rule, ...]] = {
    "Server": _SERVER,
    "Tools": _TOOLS,
    "Tool input: narrowing breaks": _INPUT,
    "Tool output: widening breaks": _OUTPUT,
    "Tool metadata and safety": _METADATA,
    "Resources and prompts": _OTHERS,
    "Pages (MCP Apps)": _APPS,
    "Skills": _SKILLS,
    "Text for models": _WORDING,
    "Recorded behaviour": _CALLS,
}
RULES: dict[str, Rule] = {
    rule.id: rule._replace(section=section) for section, rules in SECTIONS.items() for rule in rules
}

# Changes that may turn a model, or people who trust a tool, against the user: everything in category `security`.
SUSPICIONS = frozenset(
    """text-steers-model text-has-hidden-characters name-looks-like-another text-carries-data-out skill-became-dynamic
    tool-became-destructive tool-lost-read-only tool-lost-idempotent tool-became-open-world tool-hint-relaxed
    tool-visibility-widened page-origin-allowed page-permission-added page-script-added page-form-added
    page-origin-added""".split()
)
NEW_TEXTS = frozenset(
    """instructions-changed server-info-changed server-name-changed
    tool-added tool-renamed tool-description-changed tool-title-changed tool-meta-changed
    tool-icons-changed input-required-property-added input-optional-property-added input-property-description-changed
    input-enum-value-added input-default-changed input-type-widened
    output-schema-added output-property-added schema-text-changed
    resource-added resource-template-added resource-template-removed template-variable-added
    resource-mime-type-changed resource-text-changed resource-description-changed prompt-added
    prompt-argument-required-added
    prompt-argument-relaxed prompt-description-changed prompt-messages-changed skill-added skill-description-changed
    skill-frontmatter-changed skill-file-changed skill-file-added""".split()
)
# Changes that may contain new text, such as the description of a condition or a value to choose.
MAY_BRING_TEXT = frozenset(
    """input-became-enum input-const-added input-pattern-added input-pattern-changed input-all-of-added
    input-if-then-added input-any-of-removed input-one-of-removed input-schema-changed
    input-additional-properties-forbidden input-additional-properties-allowed output-enum-value-added
    output-any-of-added output-one-of-added output-constraint-tightened output-constraint-loosened
    output-schema-changed capability-added extension-added extension-settings-changed call-meta-changed
    server-request-changed""".split()
)
IN_SECURITY = SUSPICIONS | NEW_TEXTS | MAY_BRING_TEXT


def raise_level(level: Level) -> Level:
    return LEVELS[max(0, LEVELS.index(level) - 1)]
