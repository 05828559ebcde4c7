"""Names and values that look secret, and the placeholder that replaces one. Tables and predicates only.

Hiding what only looks secret breaks a recording, so names are compared whole, and in running text plain words,
references and code are left alone. Most patterns are strings, which `re` compiles when first used: match.py imports
this module for a few names only.
"""

from __future__ import annotations

from ..light import pattern

# A placeholder names the source that its secret was known from: `[redacted:env:GITHUB_TOKEN]`, `[redacted:shape:jwt]`.
MARK = "[redacted:"
PLACEHOLDER = pattern(r"\[redacted:[^\]\r\n]{0,200}\]")

# Compared whole, case- and separator-blind: `progressToken`, `maxTokens`, `nextPageToken` stay.
SECRET_KEYS = frozenset(
    """
    authorization proxyauthorization xauthorization authorizationtoken authheader basicauth httpbasicauth bearer
    apikey apikeyid apitoken apisecret apisecretkey accesskey accesskeyid accesskeysecret secretaccesskey
    token tokens accesstoken refreshtoken idtoken authtoken bearertoken sessiontoken securitytoken privatetoken
    jwt jwttoken csrftoken xcsrftoken xsrftoken deploytoken webhooktoken oauthtoken servicetoken usertoken bottoken
    apptoken admintoken logintoken resettoken invitetoken registrationtoken sastoken secrettoken
    githubtoken gitlabtoken ghtoken githubpat gitlabpat slacktoken notiontoken lineartoken figmatoken discordtoken
    telegramtoken hftoken npmtoken pypitoken vaulttoken jiratoken sentrytoken verceltoken cloudflaretoken
    secret secrets clientsecret appsecret consumersecret webhooksecret signingsecret sharedsecret jwtsecret
    totpsecret secretkey secretvalue
    password passwords passwd passphrase passcode passwordhash
    privatekey privatekeypem privatekeydata signingkey encryptionkey masterkey hmackey sshkey accountkey
    subscriptionkey licensekey servicekey sessionkey servicerolekey
    cookie setcookie sessioncookie authcookie connectionstring
    mfacode otpcode totpcode recoverycode recoverycodes backupcodes
    """.split()
)
# Names that also mean something else (`pwd` a directory, `credentials: include` a mode): the value decides.
AMBIGUOUS_KEYS = frozenset("pwd credential credentials cookies auth".split())
# With any words before them: `openai_api_key`, `x-goog-api-key`, `stripe_webhook_secret`, `db_password`.
ENDINGS = tuple(
    """
    apikey apisecret apitoken accesstoken refreshtoken authtoken bearertoken bottoken securitytoken privatetoken
    password passwd passphrase clientsecret appsecret webhooksecret signingsecret consumersecret sharedsecret
    secretkey secretaccesskey accesskeyid accesskeysecret privatekey signingkey encryptionkey masterkey
    subscriptionkey connectionstring authorization sessioncookie
    """.split()
)
# Hidden too, but not made equal in match keys, which must not change (match.KEY_VERSION): such requests still match, as
# a placeholder on the tape stands for any text.
# A proof of possession is made for one request: https://www.rfc-editor.org/rfc/rfc9449
MORE_KEYS = frozenset("codeverifier devicecode secretkeybase dpop dpopproof".split())
MORE_ENDINGS = tuple(
    """
    sessiontoken vaulttoken jobtoken deploytoken githubtoken gitlabtoken slacktoken npmtoken
    sessionsecret hmacsecret cookiesecret flasksecret jwtsecret authsecret tokensecret oauthsecret channelsecret
    dbpass smtppass mysqlpass sqlpass pgpass postgrespass mongopass redispass ldappass ftppass mailpass emailpass
    imappass userpass adminpass rootpass
    accesskey accountkey openaikey anthropickey geminikey mistralkey groqkey coherekey deepseekkey stripekey sendgridkey
    """.split()
)
_MORE_NAMES = frozenset(("PAT",))  # as they are written: in small letters it is anybody
# First words that make a name that of an action or a state: `reset_password`, `hasApiKey`, `invalid_access_token`.
_NOT_FIRST = frozenset(
    """
    get set reset forgot change update show hide has is no not use uses with without require requires required
    verify check validate generate create make delete remove list rotate revoke refresh invalid wrong missing enter
    toggle need needs allow enable enabled disable store save remember ask prompt max min
    """.split()
)
_NUMBERED = pattern(r"[-_. ]?\d{1,2}\Z")  # `api_key_1`, `password2`
_COUNTED = frozenset(("token", "tokens"))  # numbered, they are those of a text
_FIRST_WORD = pattern(r"[^A-Za-z]*([A-Z]+(?![a-z])|[A-Z]?[a-z]+)")
_SEPARATORS = str.maketrans("", "", "-_. ")

# Every folded secret name contains one of these, by a letter of theirs: to find out that a text lacks it takes no time.
_STEMS = {
    "k": ("token", "cookie"),
    "w": ("jwt", "pwd"),
    "b": ("bearer", "bpat"),
    "g": ("connectionstring",),
    "d": ("credential", "dpop"),
    "u": ("auth",),
    "s": ("secret", "pass"),
}
_KEY_STEMS = pattern(
    "(?:api|access|private|signing|encryption|master|hmac|ssh|account|subscription|license|service|session|role"
    "|openai|anthropic|gemini|mistral|groq|cohere|deepseek|stripe|sendgrid)key"
)
_CODE_STEMS = pattern("(?:mfa|otp|recovery|backup|device)code|codeverifier")
_UPPER_STEMS = pattern(r"(?a)_(?:KEY|DSN|PAT)|\bPAT\b")
_UPPER = {"K": "KEY", "D": "DSN", "P": "PAT"}  # by a letter, what one of them has
_PROGRESS_TOKEN = b'"progressToken"'  # in every other message, and no secret
_FOLDED = bytes(range(256)).lower()

# `GITHUB_TOKEN`, `AWS_SECRET_ACCESS_KEY`, `PGPASSWORD`: the last word of an environment name.
_ENV_NAME = pattern(
    r"(?:_(?:PASS|PWD|PAT|KEY|ACCESS_KEY_ID|AUTH|DSN)|(?:^|_)(?:SECRET|PASSPHRASE|CREDENTIAL|AUTHORIZATION|BEARER|COOKIE"
    r"|JWT|CONNECTION_STRING)|TOKEN|PASSWORD|PASSWD|APIKEY)S?\Z"
)
_NOT_ENV_NAME = pattern(
    r"(?:PUBLIC|PRIMARY|FOREIGN|PARTITION|SORT|CACHE|ROW|HASH|RANGE|UNIQUE|GROUP|IDEMPOTENCY|REGISTRY|OBJECT|HOT)_KEYS?\Z"
    r"|(?:PAGE|NEXT|SYNC|CONTINUATION|PROGRESS|RESUME|CANCELLATION|EOS|BOS|PAD|UNK|SEP|CLS|MASK|STOP|MAX|MIN|NUM)_TOKENS?\Z"
    r"|OLD_?PWD\Z"
)

_PLAIN_WORD = r"(?:[A-Za-z]?[a-z]+|[A-Z]+|[A-Z]?[a-z]+(?:[A-Z][a-z]+)+)"
_PLAIN = pattern(rf"{_PLAIN_WORD}(?:[-_. :/]{_PLAIN_WORD}){{0,2}}|[\d.,:/ TZ+-]+")
# What is written instead of a secret: references, masks, `your-api-key`.
_STAND_IN = pattern(
    r"\$\{[^}]*\}|\$\([^)]*\)|\$?\{\{[^}]*\}\}|<[A-Za-z _|/-]*>|%[A-Z_]+%|[*•.]+|[xX]{3,}"
    r"|(?i:none|null|nil|undefined|true|false|string|str|text|required|optional|n/a)"
    r"|(?i:(?:your|insert|enter|replace|put|example|sample|dummy|fake)[-_ ](?:[a-z]+[-_ ]){0,6}"
    r"(?:key|token|secret|password|pass|credentials?|cookie|jwt|here|value|me))"
)
# In running text also code: a dotted name, a type, a variable, an address, a date.
_CODE = pattern(
    r"[A-Za-z_]+\d{0,2}(?:(?:\.|::|->)[A-Za-z_]+\d{0,2})+|(?:u?int|float|bytes|varchar|char|[uif])\d+|\$\w+"
    r"|[a-z][a-z0-9+.-]{1,15}://.*|process\.env.*|os\.environ.*|\d{4}-\d\d-\d\d.*|[\w.+-]+@[\w-]+\.[\w.-]+"
    r"|(?i:[\w-]*(?:your|example|placeholder|changeme|dummy)[\w-]*)"
)
_ODD = pattern(r"\d|(?!\A)[!@#$%^*+=~?&](?!\Z)")
_DRIVE = pattern(r"[A-Za-z]:[\\/]")
_STEP = pattern(r"[\\/]")
_FLAG = pattern(r"(?:--[A-Za-z][\w.-]*|-[A-Za-z][A-Za-z_.-]*)(?:=.*)?\Z")


def placeholder(source: str) -> str:
    """Return the placeholder for a secret from a source, which must fit on one line."""
    return f"{MARK}{source}]"


def source_of(placeholder: str) -> str:
    return placeholder[len(MARK) : -1]


def fold(name: str) -> str:
    """Return a name without case and separators."""
    return name.translate(_SEPARATORS).lower()


def fold_quickly(text: bytes) -> str:
    """Fold the ASCII letters of a whole text, a character per byte, as `in` is several times faster on str."""
    return text.translate(_FOLDED, b"-_. ").decode("latin-1")


def is_secret_key(name: str) -> bool:
    """Return whether any string under a key is secret, by the whole name of the key."""
    if not name.isascii() or len(name) > 100:
        return False
    folded = fold(name)
    if folded in SECRET_KEYS:
        return True
    if folded.endswith(ENDINGS):
        return _names_a_thing(name)
    return name.isupper() and _is_env_name(name)


def is_hidden_key(name: str) -> bool:
    """Return whether strings under a key are hidden: the key is secret, or one of those known later."""
    if is_secret_key(name):
        return True
    if not name.isascii() or len(name) > 100:
        return False
    folded = fold(name)
    if name in _MORE_NAMES or folded in MORE_KEYS or (folded.endswith(MORE_ENDINGS) and _names_a_thing(name)):
        return True
    bare = _NUMBERED.sub("", name)
    return bare != name and fold(bare) not in _COUNTED and is_hidden_key(bare)


def _names_a_thing(name: str) -> bool:
    """Return whether a secret name begins with neither a verb nor an adjective."""
    first = _FIRST_WORD.match(name)
    return first is not None and first[1].lower() not in _NOT_FIRST


def is_secret_env(name: str) -> bool:
    return name.upper() in _MORE_NAMES or _is_env_name(name)


def _is_env_name(name: str) -> bool:
    name = name.upper()
    return _ENV_NAME.search(name) is not None and _NOT_ENV_NAME.search(name) is None


def may_name_secrets(text: bytes) -> bool:
    """Return whether a text may contain a secret name: fast, with false positives only."""
    found = _has_stem(fold_quickly(text))
    if found and _PROGRESS_TOKEN in text:
        found = _has_stem(fold_quickly(text.replace(_PROGRESS_TOKEN, b"")))
    wire = text.decode("latin-1")
    may = any(letter in wire and stem in wire for letter, stem in _UPPER.items())
    return found or (may and _UPPER_STEMS.search(wire) is not None)


def _has_stem(folded: str) -> bool:
    for letter, stems in _STEMS.items():
        if letter in folded:
            for stem in stems:
                if stem in folded:
                    return True
    if "k" in folded and "key" in folded and _KEY_STEMS.search(folded):
        return True
    return "code" in folded and _CODE_STEMS.search(folded) is not None


def is_distinctive(value: str) -> bool:
    """Return whether a value is distinctive enough to be hidden wherever it occurs: no plain words, no number."""
    return len(value) >= 8 and not _is_plain(value) and not is_stand_in(value)


def is_stand_in(value: str) -> bool:
    """Return whether a value is written instead of a secret: `${TOKEN}`, `<token>`, `your-api-key`, `***`."""
    return len(value) <= 100 and _STAND_IN.fullmatch(value) is not None


def is_path(value: str) -> bool:
    """Return whether a value is a path; some services issue keys with a leading slash, so the rest counts too."""
    if not value.startswith(("/", "./", "../", "~/")) and not _DRIVE.match(value):
        return False
    return not any(map(_looks_random, _STEP.split(value)))


def looks_issued(value: str) -> bool:
    """Return whether the text behind `Bearer` and the like is a secret: neither a word, a reference nor code."""
    value = value.rstrip("=")
    if len(value) < 6 or len(value) > 1000:
        return len(value) > 1000
    return not (_is_plain(value) or is_stand_in(value) or is_path(value) or _CODE.fullmatch(value))


def looks_assigned(value: str) -> bool:
    """Return whether the value assigned to a secret name in a text is a secret: it also has to be odd or long."""
    if not looks_issued(value):
        return False
    return len(value) > 1000 or _ODD.search(value) is not None or (len(value) >= 20 and not value.islower())


def is_flag(word: str) -> bool:
    """Return whether a word of a command line is an option: some tokens begin with a dash, too."""
    return _FLAG.match(word) is not None and not (len(word) > 2 and _looks_random(word.partition("=")[0]))


def _is_plain(value: str) -> bool:
    return len(value) <= 100 and _PLAIN.fullmatch(value) is not None


def _looks_random(word: str) -> bool:
    kinds = {(c.islower(), c.isupper(), c.isdigit()) for c in word[:100]}
    return len(word) >= 12 and len(kinds - {(False, False, False)}) == 3
