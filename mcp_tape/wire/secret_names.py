"""Names and values that look secret, and their placeholders. Tables and predicates only.

Hiding text that only looks secret breaks a recording. So names are compared whole, and plain words, references and code
in running text are left alone. Most patterns are compiled on first use, because match.py imports this module for a few
names only.
"""

from __future__ import annotations

from ..light import pattern

# A placeholder names where its secret is known from: `[redacted:env:GITHUB_TOKEN]`, `[redacted:shape:jwt]`.
MARK = "[redacted:"
PLACEHOLDER = pattern(r"\[redacted:[^\]\r\n]{0,200}\]")

# Compared whole, ignoring case and separators: `progressToken`, `maxTokens`, `nextPageToken` stay.
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
# Names with another meaning (`pwd` a directory, `credentials: include` a mode, `pin` of a chip): the value decides.
AMBIGUOUS_KEYS = frozenset("pwd credential credentials cookies auth pin pat assertion storagekey".split())
# With any words before them: `openai_api_key`, `x-goog-api-key`, `stripe_webhook_secret`, `db_password`.
ENDINGS = tuple(
    """
    apikey apisecret apitoken accesstoken refreshtoken authtoken bearertoken bottoken securitytoken privatetoken
    password passwd passphrase clientsecret appsecret webhooksecret signingsecret consumersecret sharedsecret
    secretkey secretaccesskey accesskeyid accesskeysecret privatekey signingkey encryptionkey masterkey
    subscriptionkey connectionstring authorization sessioncookie
    """.split()
)
# Hidden too, but not made equal in match keys, which must stay stable (match.KEY_VERSION). Requests with them still
# match, because a placeholder on the tape matches any text. A proof of possession is made for one request:
# https://www.rfc-editor.org/rfc/rfc9449
MORE_KEYS = frozenset(
    """
    codeverifier devicecode usercode authorizationcode clientassertion samlresponse secretkeybase dpop dpopproof
    otp totp sharedaccesssignature storepassword clientkeydata
    """.split()
)
MORE_ENDINGS = tuple(
    """
    sessiontoken vaulttoken jobtoken deploytoken githubtoken gitlabtoken slacktoken npmtoken
    sessionsecret hmacsecret cookiesecret flasksecret jwtsecret authsecret tokensecret oauthsecret channelsecret
    dbpass smtppass mysqlpass sqlpass pgpass postgrespass mongopass redispass ldappass ftppass mailpass emailpass
    imappass userpass adminpass rootpass
    roottoken configtoken unsealkey authkey privkey keypass storepass passwort motdepasse
    accesskey accountkey functionskey openaikey anthropickey geminikey mistralkey groqkey coherekey deepseekkey
    stripekey sendgridkey
    """.split()
)
_MORE_NAMES = frozenset(("PAT",))  # in upper case only: `pat` is also a first name
# First words that turn a name into an action or a state: `reset_password`, `hasApiKey`, `invalid_access_token`.
_NOT_FIRST = frozenset(
    """
    get set reset forgot change update show hide has is no not use uses with without require requires required
    verify check validate generate create make delete remove list rotate revoke refresh invalid wrong missing enter
    toggle need needs allow enable enabled disable store save remember ask prompt max min
    """.split()
)
_NUMBERED = pattern(r"[-_. ]?\d{1,2}\Z")  # `api_key_1`, `password2`
_COUNTED = frozenset(("token", "tokens"))  # with a number these count tokens of text
_FIRST_WORD = pattern(r"[^A-Za-z]*([A-Z]+(?![a-z])|[A-Z]?[a-z]+)")
_SEPARATORS = str.maketrans("", "", "-_. ")

# Every folded secret name contains one of these, filed under a letter of theirs: its absence rules them out at once.
_STEMS = {
    "k": ("token", "cookie"),
    "w": ("jwt", "pwd"),
    "b": ("bearer", "bpat"),
    "g": ("connectionstring",),
    "d": ("credential", "dpop"),
    "u": ("auth",),
    "s": ("secret", "pass", "assertion", "samlresponse", "accesssignature"),
}
# Words before `key` and before `code` in secret names. Short names are parts of many words: what may follow those.
_BEFORE_KEY = tuple(
    """
    api access private signing encryption master hmac ssh account subscription license service session role priv unseal
    storage client functions openai anthropic gemini mistral groq cohere deepseek stripe sendgrid
    """.split()
)
_BEFORE_CODE = tuple("mfa otp recovery backup device user".split())
_SHORT_STEMS = ("otp", "pin", "pat")
_BEHIND_SHORT = frozenset("\"'`\\:=]>|0123456789")
_UPPER_STEMS = pattern(r"(?a)_(?:KEY|DSN|PAT)|\bPAT\b")
_UPPER = {"K": "KEY", "D": "DSN", "P": "PAT"}  # by a letter, the stem that has it
_PROGRESS_TOKEN = b'"progressToken"'  # in every other message, and not a secret
_FOLDED = bytes(range(256)).lower()

# Last words of environment names: `GITHUB_TOKEN`, `AWS_SECRET_ACCESS_KEY`, `PGPASSWORD`.
_ENV_NAME = pattern(
    r"(?:_(?:PASS|PWD|PAT|KEY|ACCESS_KEY_ID|AUTH|DSN)|(?:^|_)(?:SECRET|PASSPHRASE|CREDENTIAL|AUTHORIZATION|BEARER|COOKIE"
    r"|JWT|CONNECTION_STRING)|TOKEN|PASSWORD|PASSWD|APIKEY)S?\Z"
)
_NOT_ENV_NAME = pattern(
    r"(?:PUBLIC|PRIMARY|FOREIGN|PARTITION|SORT|CACHE|ROW|HASH|RANGE|UNIQUE|GROUP|IDEMPOTENCY|REGISTRY|OBJECT|HOT)_KEYS?\Z"
    r"|(?:PAGE|NEXT|SYNC|CONTINUATION|PROGRESS|RESUME|CANCELLATION|EOS|BOS|PAD|UNK|SEP|CLS|MASK|STOP|MAX|MIN|NUM)_TOKENS?\Z"
    r"|OLD_?PWD\Z"
)

# A word, or a variable name of several. Random letters rarely look like this: few of their capitals begin a word.
_INNER_WORD = (
    r"(?:[A-Z][a-z]{2,}|A[nst]|By|Db|I[dfnopst]|Js|My|No|O[fnrs]|To|U[ip]"
    r"|A[IP]I?|CSS|CSV|DB|HTML|HTTPS?|I[DOP]s?|J[SW]|JSON|JWT|MCP|OS|OTP|PDF|PW|SDK|SQL|SS[EHL]|TLS|U[IP]|UR[IL]s?|UTF|UUID|XML)"
)
_PLAIN_WORD = rf"(?:[A-Za-z]?[a-z]+|[A-Z]+|[A-Z]?[a-z]+{_INNER_WORD}+|[A-Z]{{2,5}}{_INNER_WORD}+)"
_PLAIN = pattern(rf"{_PLAIN_WORD}(?:[-_. :/]{_PLAIN_WORD}){{0,2}}|[\d.,:/ TZ+-]+")
# Words with numbers after them, joined as in `uploads/2026/photo.png`, `Base64-encoded`, `user-settings-v2`.
_NUMBERED_WORD = rf"(?:{_PLAIN_WORD}\d{{0,4}}|[vx]?\d{{1,8}})"
_WORDY = pattern(rf"[-_.:/]{{0,3}}{_NUMBERED_WORD}(?:[-_. :/]{{1,3}}{_NUMBERED_WORD})*[-_.:/]{{0,3}}")
_UUID = pattern(r"(?i)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_NUMBER = pattern(r"\d{4,8}")
# Names whose values are numbers, in text too.
_NUMERIC = frozenset("otp totp otpcode totpcode mfacode passcode pin".split())
# Text in the place of a secret: references, masks, `your-api-key`.
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
# Text after `name=` that refers to a value: a variable, a format, a call, a part of a URL pattern.
_REFERENCE = pattern(
    r"[$%][({]?\w*[)}]?|.*\$\{.*|\$\(.*|[{<:@].*|process\.env.*|os\.environ.*|(?:self|this|config|settings|options|args|env)\..*"
    r"|[a-z][a-z0-9+.-]{1,15}://.*|(?i:[\w-]*(?:your|example|placeholder|changeme|dummy)[\w-]*|foo|bar|baz)|\.{3}|…"
    r"|(?:[A-Z][a-z]+ )?(?:%[sdr]|\{\w*\})(?:[:/_. -](?:%[sdr]|\{\w*\}))*|(?:Basic|Bearer|Digest|Token) *"
)
_TOKEN = pattern(r"[A-Za-z0-9_+/=.~-]{12,}")
_WEAK_ENV_NAME = pattern(r"(?:_|^)(?:KEY|AUTH|PASS|PAT|DSN|COOKIE|CREDENTIAL|BEARER|JWT|ACCESS_KEY_ID)S?\Z")
_ODD = pattern(r"\d|(?!\A)[!@#$%^*+=~?&](?!\Z)")
_DRIVE = pattern(r"[A-Za-z]:[\\/]")
_STEP = pattern(r"[\\/]")
_FLAG = pattern(r"(?:--[A-Za-z][\w.-]*|-[A-Za-z][A-Za-z_.-]*)(?:=.*)?\Z")


def placeholder(source: str) -> str:
    """Return the placeholder for a secret; `source` must fit on one line."""
    return f"{MARK}{source}]"


def source_of(placeholder: str) -> str:
    return placeholder[len(MARK) : -1]


def fold(name: str) -> str:
    """Return a name in lower case, without separators."""
    return name.translate(_SEPARATORS).lower()


def fold_quickly(text: bytes) -> str:
    """Fold the ASCII letters of a whole text, one character per byte: `in` is several times faster on str."""
    return text.translate(_FOLDED, b"-_. ").decode("latin-1")


def is_secret_key(name: str) -> bool:
    """Return whether any string under a key is secret, judged by the key's whole name."""
    if not name.isascii() or len(name) > 100:
        return False
    folded = fold(name)
    if folded in SECRET_KEYS:
        return True
    if folded.endswith(ENDINGS):
        return _names_a_thing(name)
    return name.isupper() and _is_env_name(name)


def is_hidden_key(name: str) -> bool:
    """Return whether strings under a key are hidden: the key is secret, or in the later tables (`MORE_KEYS`)."""
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


def is_ambiguous_secret(name: str, value: str) -> bool:
    """Return whether a value under an ambiguous name is secret."""
    folded = fold(name)
    if folded not in AMBIGUOUS_KEYS:
        return False
    if folded == "pin":
        return _NUMBER.fullmatch(value) is not None
    if folded in ("pat", "assertion", "storagekey"):
        return _TOKEN.fullmatch(value) is not None and looks_random(value)
    return looks_issued(value)


def is_secret_env(name: str) -> bool:
    return name.upper() in _MORE_NAMES or _is_env_name(name)


def _is_env_name(name: str) -> bool:
    name = name.upper()
    return _ENV_NAME.search(name) is not None and _NOT_ENV_NAME.search(name) is None


def may_name_secrets(text: bytes) -> bool:
    """Return whether a text may contain a secret name: fast, with false positives but no false negatives."""
    found = _has_stem(fold_quickly(text))
    if found and _PROGRESS_TOKEN in text:
        found = _has_stem(fold_quickly(text.replace(_PROGRESS_TOKEN, b"")))
    if found:
        return True
    wire = text.decode("latin-1")
    for letter, stem in _UPPER.items():
        if letter in wire and stem in wire:
            return _UPPER_STEMS.search(wire) is not None
    return False


def _has_stem(folded: str) -> bool:
    for letter, stems in _STEMS.items():
        if letter in folded:
            for stem in stems:
                if stem in folded:
                    return True
    if "k" in folded and "key" in folded and ("keypass" in folded or _follows("key", _BEFORE_KEY, folded)):
        return True
    if "code" in folded and ("codeverifier" in folded or _follows("code", _BEFORE_CODE, folded)):
        return True
    if not ("otp" in folded or "pin" in folded or "pat" in folded):
        return False
    for stem in _SHORT_STEMS:
        at = folded.find(stem)
        while at >= 0:
            if folded[at + 3 : at + 4] in _BEHIND_SHORT:
                return True
            at = folded.find(stem, at + 3)
    return False


def _follows(stem: str, beginnings: tuple[str, ...], folded: str) -> bool:
    """Return whether a stem follows one of several beginnings. Faster than a pattern: most texts have few stems."""
    at = folded.find(stem)
    while at >= 0:
        if folded.endswith(beginnings, 0, at):
            return True
        at = folded.find(stem, at + len(stem))
    return False


def is_distinctive(value: str) -> bool:
    """Return whether a value is distinctive enough to hide wherever it occurs: neither plain words nor a number."""
    return len(value) >= 8 and not _is_plain(value) and not is_stand_in(value)


def is_stand_in(value: str) -> bool:
    """Return whether a value is written in the place of a secret: `${TOKEN}`, `<token>`, `your-api-key`, `***`."""
    return len(value) <= 100 and _STAND_IN.fullmatch(value) is not None


def is_path(value: str) -> bool:
    """Return whether a value is a path.

    Some services issue keys with a leading slash, so no step of a path may look random.
    """
    if not value.startswith(("/", "./", "../", "~/")) and not _DRIVE.match(value):
        return False
    return not any(map(_looks_random, _STEP.split(value)))


def looks_issued(value: str) -> bool:
    """Return whether the text after `Bearer` and the like is a secret: neither a word, a reference nor code."""
    value = value.rstrip("=")
    if len(value) < 6 or len(value) > 1000:
        return len(value) > 1000
    return not (_is_plain(value) or is_stand_in(value) or is_path(value) or _CODE.fullmatch(value))


def looks_assigned(value: str, name: str = "") -> bool:
    """Return whether the value of a secret name in text, as in `name: value`, is a secret: it must not be words."""
    if fold(name) in _NUMERIC and _NUMBER.fullmatch(value):
        return True
    if not looks_issued(value):
        return False
    return len(value) > 1000 or _ODD.search(value) is not None or not _WORDY.fullmatch(value)


def looks_given(name: str, value: str, in_url: bool = False) -> bool:
    """Return whether the value in `name=value` is a secret. A word is one too, unless the name has another meaning.

    `in_url`: the value is in a query or a connection string, where `pwd` is never a directory.
    """
    if len(value) < 3 or is_reference(value) or is_path(value) or fold(value) == fold(name):
        return False
    if len(value) > 1000:
        return True
    folded = fold(name)
    if in_url and folded == "pwd":
        return True
    if folded in AMBIGUOUS_KEYS and folded != "pwd" and (folded == "pin" or not name.isupper()):
        return is_ambiguous_secret(name, value) and (len(value) >= 8 or folded in _NUMERIC)
    is_known = folded in SECRET_KEYS or folded in MORE_KEYS or folded.endswith((*ENDINGS, *MORE_ENDINGS))
    if folded in AMBIGUOUS_KEYS or (name.isupper() and _WEAK_ENV_NAME.search(name) and not is_known):
        return looks_assigned(value)
    return not (folded in _COUNTED and value.isdecimal())


def is_reference(value: str) -> bool:
    """Return whether a value refers to another: a variable, a format, `<token>`, `***`."""
    return is_stand_in(value) or _REFERENCE.fullmatch(value) is not None


def is_variable(value: str) -> bool:
    """Return whether a value may be a program's variable, or a member of one."""
    return value.replace(".", "").isidentifier() and _WORDY.fullmatch(value) is not None


def looks_random(value: str) -> bool:
    """Return whether a value is neither words nor a reference, whatever precedes it."""
    return looks_issued(value) and len(value) >= 8 and not (_WORDY.fullmatch(value) or _UUID.fullmatch(value))


def is_flag(word: str) -> bool:
    """Return whether a command-line word is an option. Some tokens begin with a dash too."""
    return _FLAG.match(word) is not None and not (len(word) > 2 and _looks_random(word.partition("=")[0]))


def _is_plain(value: str) -> bool:
    return len(value) <= 100 and _PLAIN.fullmatch(value) is not None


def _looks_random(word: str) -> bool:
    kinds = {(c.islower(), c.isupper(), c.isdigit()) for c in word[:100]}
    return len(word) >= 12 and len(kinds - {(False, False, False)}) == 3
