"""What looks secret: key names, environment names, token shapes. Tables and plain tests only.

Hiding what only looks secret breaks a recording, so names are compared whole and shapes are strict.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

# Compared whole, case- and separator-blind: `progressToken`, `maxTokens`, `nextPageToken` stay.
SECRET_KEYS = frozenset(
    """
    authorization proxyauthorization xauthorization authorizationtoken
    apikey xapikey apikeyid apisecret apisecretkey apitoken xapitoken subscriptionkey ocpapimsubscriptionkey
    token accesstoken refreshtoken idtoken authtoken xauthtoken bearertoken sessiontoken securitytoken
    personalaccesstoken privatetoken githubtoken gitlabtoken slacktoken bottoken jwt jwttoken csrftoken
    xcsrftoken xsrftoken deploytoken webhooktoken oauthtoken oauthaccesstoken servicetoken
    secret clientsecret appsecret consumersecret webhooksecret signingsecret sharedsecret jwtsecret
    secretkey secretaccesskey awssecretaccesskey awssessiontoken accesskeysecret accesskey secretvalue
    password passwd pwd passphrase userpassword dbpassword adminpassword newpassword oldpassword
    currentpassword confirmpassword passwordhash keyfilepassword pgpassword
    privatekey privatekeypem signingkey encryptionkey masterkey hmackey sshkey sshprivatekey
    cookie setcookie cookies sessioncookie sessionkey
    credential credentials connectionstring databaseurl accountkey storageaccountkey sastoken
    mfacode otpcode totpsecret recoverycode
    """.split()
)

# `GITHUB_TOKEN`, `AWS_SECRET_ACCESS_KEY`, `DB_PASSWORD`: the last words of an environment name.
_ENV_NAME = re.compile(
    r"(?:^|_)(?:TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|PASS|PWD|PAT|APIKEY|API_KEY|ACCESS_KEY|SECRET_KEY"
    r"|PRIVATE_KEY|SIGNING_KEY|ENCRYPTION_KEY|MASTER_KEY|AUTH_KEY|ACCOUNT_KEY|SERVICE_KEY|LICENSE_KEY"
    r"|ACCESS_KEY_ID|KEY|CREDENTIALS?|AUTH|AUTHORIZATION|BEARER|COOKIE|JWT|DSN|CONNECTION_STRING)$"
)
_NOT_ENV_SECRET = frozenset({"PWD", "OLDPWD", "AUTH", "KEY", "PASS"})

SHAPES: Mapping[str, str] = {
    # group "hide", where there is one, is the part to replace
    "private-key": r"-----BEGIN (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----[\s\S]*?"
    r"(?:-----END (?:[A-Z0-9]+ )*PRIVATE KEY(?: BLOCK)?-----|\Z)",
    "jwt": r"\beyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]{8,}",
    "aws": r"\b(?:AKIA|ASIA|ABIA|ACCA)[A-Z2-7]{16}\b",
    "github": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,255}|github_pat_[A-Za-z0-9]{20,}_[A-Za-z0-9]{40,})\b",
    "gitlab": r"\bgl(?:pat|dt|rt|ptt|cbt|soat|ft|oas)-[\w-]{20,}",
    "slack": r"\b(?:xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-\d-[A-Z0-9]+-\d+-[a-z0-9]+)",
    "slack-webhook": r"hooks\.slack\.com/(?:services|workflows)/(?P<hide>[A-Z0-9]+/[\w/]{20,})",
    "anthropic": r"\bsk-ant-[\w-]{20,}",
    "openai": r"\bsk-(?:proj|svcacct|admin|or-v1|None)-[\w-]{20,}|\bsk-(?=[A-Za-z]*\d)[A-Za-z0-9]{32,}\b",
    "stripe": r"\b(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,}|\bwhsec_[A-Za-z0-9+/=]{24,}",
    "google": r"\bAIza[\w-]{35}\b|\bya29\.[\w-]{20,}|\bGOCSPX-[\w-]{20,}",
    "npm": r"\bnpm_[A-Za-z0-9]{36}\b",
    "pypi": r"\bpypi-AgE[\w-]{50,}",
    "sendgrid": r"\bSG\.[\w-]{16,32}\.[\w-]{32,64}",
    "twilio": r"\bSK[0-9a-f]{32}\b",
    "mailgun": r"\bkey-[0-9a-f]{32}\b",
    "digitalocean": r"\bdo[opr]_v1_[a-f0-9]{64}\b",
    "huggingface": r"\bhf_[A-Za-z0-9]{30,}\b",
    "databricks": r"\bdapi[0-9a-f]{32}\b",
    "vault": r"\bhv[sbr]\.[\w-]{24,}",
    "telegram": r"\b\d{8,10}:AA[\w-]{33}\b",
    "discord": r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,45}\b",
    "linear": r"\blin_(?:api|oauth)_[A-Za-z0-9]{32,}\b",
    "notion": r"\bntn_[A-Za-z0-9]{40,}\b",
    "figma": r"\bfig[du]_[\w-]{36,}",
    "shopify": r"\bshp(?:at|ca|pa|ss|tka)_[a-fA-F0-9]{32}\b",
    "grafana": r"\bgl(?:sa|c)_[A-Za-z0-9+/=_]{32,}",
    "newrelic": r"\bNRAK-[A-Z0-9]{27}\b",
    "postman": r"\bPMAK-[a-f0-9]{24}-[a-f0-9]{34}\b",
    "supabase": r"\bsb(?:p|_secret)_[A-Za-z0-9_-]{30,}",
    "groq": r"\bgsk_[A-Za-z0-9]{40,}\b",
    "perplexity": r"\bpplx-[A-Za-z0-9]{40,}\b",
    "replicate": r"\br8_[A-Za-z0-9]{37}\b",
    "xai": r"\bxai-[A-Za-z0-9]{60,}\b",
    "tavily": r"\btvly-[A-Za-z0-9-]{24,}",
    "atlassian": r"\bATATT3[\w=-]{60,}",
    "sentry": r"\bsntry[su]_[\w+/=-]{40,}",
    "azure": r"(?i:AccountKey|SharedAccessKey)=(?P<hide>[A-Za-z0-9+/]{40,}={0,2})",
    "age": r"\bAGE-SECRET-KEY-1[A-Z0-9]{58}\b",
    "bearer": r"(?i:\bbearer)\s+(?P<hide>(?=[\w.~+/=-]*\d)[\w.~+/-]{12,}=*)",
    "basic": r"(?i:\bauthorization[\"']?\s*[:=]\s*[\"']?basic)\s+(?P<hide>[A-Za-z0-9+/]{8,}=*)",
    "cookie": r"(?i:\b(?:set-)?cookie)[\"']?:\s*[\"']?(?P<hide>[\w.-]+=[^\r\n\"']{6,})",
    "url-password": r"[a-z][a-z0-9+.-]*://[^/\s:@\"'?#]*:(?P<hide>[^/\s@\"'?#]{3,})@",
}

# A superset of SHAPES that is quick to search and needs no word boundary: in raw JSON text the
# letter of an escape (`\n`) may stand right before a token.
HINT = (
    r"-----BEGIN|eyJ|A(?:KIA|SIA|BIA|CCA)|gh[pousr]_|github_pat_|gl(?:pat|dt|rt|ptt|cbt|soat|ft|oas)-|xox[abeoprs]-"
    r"|xapp-|hooks\.slack|sk-|[sr]k_(?:live|test)_|whsec_|AIza|ya29\.|GOCSPX-|npm_|pypi-AgE|SG\.|SK[0-9a-f]{32}"
    r"|key-[0-9a-f]{32}|do[opr]_v1_|hf_|dapi[0-9a-f]{32}|hv[sbr]\.|:AA[\w-]{33}|\.[\w-]{6}\.[\w-]{27}|lin_(?:api|oauth)_"
    r"|ntn_|fig[du]_|shp[actps]|gl(?:sa|c)_|NRAK-|PMAK-|sb(?:p|_secret)_|gsk_|pplx-|r8_|xai-|tvly-|ATATT3|sntry[su]_"
    r"|AccountKey|AccessKey|AGE-SECRET|(?i:bearer\s|basic\s|cookie)|://[^/\s@]*@"
)

# `name = value`, `name: value`, `"name": "value"` in free text; the caller judges name and value.
ASSIGNMENT = re.compile(
    r"(?<![\w.-])-{0,2}(?P<name>[A-Za-z_][\w.-]{1,63})(?:\\?[\"'])?(?P<by>\s{0,3}(?:=>|:=|[:=])\s{0,3}|(?<=[a-z]) +)"
    r"(?:\\?[\"'])?(?P<value>[^\s\"'&,;<>()\[\]{}\\|`]{8,})(?P<next>.?)"
)
# The names that occur before a colon or an equals sign, keys of JSON objects included.
NAMES = re.compile(r'"[^"\\]{1,64}"(?=\s*:)|(?<![\w.-])-{0,2}[A-Za-z_][\w.-]{1,63}(?=\\?["\']?\s{0,3}[:=])')
_FLAG = re.compile(r"--?[A-Za-z][\w-]*\Z")

_SEPARATORS = str.maketrans("", "", "-_. ")
_PLAIN_WORD = re.compile(r"[A-Za-z]?[a-z]+|[A-Z]+")
_STAND_IN = re.compile(
    r"(?i:your|my[-_]|the[-_]|example|sample|dummy|placeholder|change|insert|replace|redacted|none|null|undefined"
    r"|x{4}|\*{3}|\.{3}|[$<{%#\[]|process\.env|os\.environ|env[.:]|https?://|string\b|secrets\.)"
)


def is_secret_key(name: str) -> bool:
    """Whether a value under this key is secret, by the key's whole name."""
    return name.translate(_SEPARATORS).lower() in SECRET_KEYS or (name.isupper() and is_secret_env(name))


def is_secret_env(name: str) -> bool:
    """Whether an environment variable of this name holds a secret."""
    name = name.upper()
    return name not in _NOT_ENV_SECRET and _ENV_NAME.search(name) is not None


def is_flag(word: str) -> bool:
    """Whether a word of a command line is an option that takes the next word as its value."""
    return _FLAG.match(word) is not None


def is_distinctive(value: str) -> bool:
    """Whether a value is long and odd enough to be hidden wherever it turns up."""
    return len(value) >= 8 and not _PLAIN_WORD.fullmatch(value)


def is_env_value(value: str) -> bool:
    """Whether the value of a secret-looking variable is one: paths, numbers and words are not."""
    return is_distinctive(value) and not value.startswith(("/", "./", "~/")) and not value.isdigit()


def looks_assigned(value: str) -> bool:
    """Whether what a text assigns to a secret name is a secret, and not a word, a reference or code."""
    if not is_distinctive(value) or _STAND_IN.match(value):
        return False
    return any(c.isdigit() for c in value) or any(c in "!@#$%^*+/=~?" for c in value)
