r"""Shapes of tokens that services issue: a pattern for each, and a cheap sign of its presence.

A pattern starts with fixed text where it can, which `re` finds fastest, and then checks the text before it. Every
pattern takes linear time: an unbounded repetition is never followed by something that can fail, and each lookahead is
bounded.

Prefixes, alphabets and lengths are published by the services, and collected in the tables of gitleaks
(https://github.com/gitleaks/gitleaks) and detect-secrets (https://github.com/Yelp/detect-secrets).
"""

from __future__ import annotations

import re
from functools import cache

from ..light import NamedTuple, pattern
from ..wire import protocol
from .strings import is_json

# Long words of the protocol itself, which occur in every other message.
_NOTIFICATION, _META = (f'"{word}'.encode() for word in (protocol.NOTIFICATION_PREFIX, protocol.META))


class Shape(NamedTuple):
    """A token shape. Every match contains one of the literal texts in `signs`.

    A group `hide` is the part to replace, else the whole match is. A group `maybe` is replaced only if it does not look
    like a word or a stand-in.
    """

    name: str
    signs: str
    pattern: str


def _free(width: int) -> str:
    """Assert that the last `width` characters do not continue a word; that of an escape (`\\n`) does not count."""
    before = rf".{{{width}}})"
    return (
        rf"(?:(?<![A-Za-z0-9]{before}|(?<=\\[nrtbf]{before}"
        rf"|(?<=%[0-9A-Fa-f]{{2}}{before}|(?<=\\u[0-9A-Fa-f]{{4}}{before})"
    )


_END = r"(?![A-Za-z0-9])"
_DIGIT = r"(?=[\w-]{0,60}\d)"  # slugs share the prefix, but have no digits
_UPPER = r"(?=[\w-]{0,60}[A-Z])"
# Two capitals or digits: words after a prefix have none, and 20 random characters nearly always do.
_MIXED = r"(?=(?:[a-z_-]{0,60}[A-Z\d]){2})"
_UUID = r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
_OPENED = r"\\{0,7}[\"']?:\s{0,4}\\{0,7}[\"']?"
_NO_CALL = r"(?![\w.~+/:-]{1,100}\()"  # base64(user:password) in a manual
_LOGIN = r"login[ \t]{1,4}\S{1,100}\s{1,8}password[ \t]{1,4}"
_PEM = r"(?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY(?: BLOCK)?"

# Each match contains a secret name: `private key`, `bearer`, `authorization`, `cookie`, `password`.
NAMED = (
    Shape("private-key", "PRIVATE", rf"----[- ]BEGIN {_PEM} ?----[\s\S]*?(?:----[- ]END {_PEM} ?-----?|\Z)"),
    Shape("bearer", "earer EARER", rf"(?:[Bb]earer|BEARER)(?:\s{{1,4}}|%20|\+){_NO_CALL}(?P<maybe>[\w.~+/-]{{8,}}=*)"),
    Shape(
        "authorization",
        "uthorization UTHORIZATION",
        r"(?:[Aa]uthorization|AUTHORIZATION)\\{0,7}[\"']?\s{0,4}[:=]\s{0,4}\\{0,7}[\"']?(?:[A-Za-z-]{1,20} {1,4})?"
        rf"{_NO_CALL}"
        r"(?P<maybe>[\w.~+/:-]{6,}=*)",
    ),
    Shape("cookie", "ookie OOKIE", rf"(?:[Cc]ookie|COOKIE){_OPENED}(?P<hide>[\w.-]{{1,64}}=[^\r\n\"'\\]{{6,}})"),
    Shape("netrc", "login", rf"(?:machine[ \t]{{1,4}}\S{{1,200}}|default)\s{{1,8}}{_LOGIN}(?P<hide>\S{{1,200}})"),
    Shape("netrc", "login", rf"{_LOGIN}(?P<maybe>\S{{1,200}})"),
)

# One sign each, rare enough to search for in every text.
SHORT = (
    Shape("url-password", "://", r":(?:\\{0,7}/){2}[^/\s:@\"'?#\\]{0,200}:(?P<hide>[^/\s\"'?#\\<>]{3,500})@"),
    Shape("url-token", "://", r":(?:\\{0,7}/){2}(?P<maybe>[\w.~+-]{20,200})@"),
    Shape("user-password", " -u ", r" -u [\"']?[\w.@+-]{1,64}:(?P<maybe>[^\s\"'\\]{6,})"),
    Shape("user-password", " --user", r" --user[ =][\"']?[\w.@+-]{1,64}:(?P<maybe>[^\s\"'\\]{6,})"),
    Shape("signature", "sig=", r"[?&;]sig=(?P<hide>[\w%+/-]{30,}=*)"),
    Shape("oauth-code", "code=", r"[?&]code=(?=[^&\s\"']{0,100}\d)(?P<maybe>[\w./%~-]{16,})"),
    Shape("private-key", "Private-Lines", r"Private-Lines: \d{1,3}(?P<hide>\s[\s\S]*?)(?=Private-MAC|\Z)"),
    Shape("salesforce", "00D", rf"00D{_free(3)}[A-Za-z0-9]{{12,15}}![\w.]{{60,}}"),
    Shape("azure", "Q~", r"[\w~.-]{3}\dQ~[\w~.-]{31,}"),
)

# Each match contains a run of 20 or more of `A-Za-z0-9_+/=-`.
LONG = (
    Shape("basic", "Basic", rf"Basic(?<![\w-].{{5}})(?:\s{{1,4}}|%20){_MIXED}(?P<maybe>[A-Za-z0-9+/]{{18,}}={{0,2}})"),
    Shape("jwt", "eyJ", rf"eyJ{_free(3)}[\w-]{{8,2000}}\.eyJ[\w-]{{8,}}\.[\w-]{{20,}}"),
    Shape("jwe", "eyJ", rf"eyJ{_free(3)}[\w-]{{8,2000}}\.[\w-]{{0,1000}}\.[\w-]{{16}}\.[\w-]{{8,}}\.[\w-]{{22}}"),
    Shape("aws", "AKIA ASIA ABIA ACCA A3T", rf"A(?:KIA|SIA|BIA|CCA|3T[A-Z0-9]){_free(4)}[A-Z2-7]{{16}}{_END}"),
    Shape("aws", "bedrock-api-key-", r"bedrock-api-key-[A-Za-z0-9+/]{30,}={0,2}"),
    Shape("aws", "amzn", rf"amzn{_free(4)}(?:\.mws\.{_UUID}|1\.oa2-cs\.v1\.[0-9a-f]{{64}})"),
    Shape("aws", "X-Amz-Signature", r"X-Amz-Signature=(?P<hide>[0-9a-f]{64})"),
    Shape("google", "X-Goog-Signature", r"X-Goog-Signature=(?P<hide>[0-9a-f]{64,})"),
    Shape("aws", "ABSK", rf"ABSK{_free(4)}[A-Za-z0-9+/]{{100,}}={{0,2}}"),
    Shape("github", "ghp_ gho_ ghu_ ghs_ ghr_", r"gh[pousr]_[A-Za-z0-9]{36,}"),
    Shape("github", "github_pat_", r"github_pat_[A-Za-z0-9]{20,}_[A-Za-z0-9]{40,}"),
    Shape(
        "gitlab",
        "glpat- gldt- glrt- glptt- glcbt- glsoat- glft- gloas- glagent- glimt- glffct-",
        rf"gl(?:pat|dt|rt|ptt|cbt|soat|ft|oas|agent|imt|ffct)-{_MIXED}[\w-]{{20,}}(?:\.[0-9a-z]{{2}}\.[0-9a-z]{{7,9}})?",
    ),
    Shape("slack", "xox", rf"xox[abcdeprs](?:\.xox[bp])?-{_DIGIT}[\w-]{{15,}}[\w%-]*"),
    Shape("slack", "xapp-", r"xapp-\d-[A-Z0-9]{4,40}-\d{4,40}-[a-z0-9]{16,}"),
    Shape(
        "slack",
        "hooks.slack",
        r"hooks\.slack\.com\\?/(?:services|workflows|triggers)\\?/(?P<hide>[A-Z0-9]{4,20}\\?/[A-Z0-9]{4,20}\\?/\w{20,})",
    ),
    Shape("discord", "webhooks", r"discord(?:app)?\.com\\?/api\\?/webhooks\\?/\d{10,24}\\?/(?P<hide>[\w-]{60,})"),
    Shape("discord", "mfa.", rf"mfa\.{_free(4)}[\w-]{{84,}}"),
    Shape("teams", "webhookb2", r"webhookb2\\?/[\w@-]{30,100}\\?/IncomingWebhook\\?/(?P<hide>[\w/-]{32,100})"),
    Shape("gitlab", "GR1348941", r"GR1348941[\w-]{20,}"),
    Shape("gitlab", "_gitlab_session=", r"_gitlab_session=(?P<hide>[0-9a-z]{32})"),
    Shape("anthropic", "sk-ant-", rf"sk-ant-{_DIGIT}[\w-]{{20,}}"),
    Shape("openai", "sk-", rf"sk-{_free(3)}(?:proj|svcacct|admin|None|service)-{_DIGIT}{_UPPER}[\w-]{{20,}}"),
    Shape("openai", "sk-", rf"sk-{_free(3)}(?=[A-Za-z]{{0,60}}\d)[A-Za-z0-9]{{32,}}"),
    Shape("openrouter", "sk-or-", r"sk-or-v1-[0-9a-f]{32,}"),
    Shape("langfuse", "sk-lf-", rf"sk-lf-{_UUID}"),
    Shape("stripe", "sk_ rk_", r"[sr]k_(?:live|test|prod)_[A-Za-z0-9]{16,}"),
    Shape("stripe", "whsec_", r"whsec_[A-Za-z0-9+/]{24,}=*"),
    Shape("google", "AIza", rf"AIza{_free(4)}[\w-]{{35,}}"),
    Shape("google", "ya29.", r"ya29\.[\w-]{20,}[\w.-]*"),
    Shape("google", "GOCSPX-", r"GOCSPX-[\w-]{20,}"),
    Shape("google", "1//0", rf"1//0{_free(4)}[\w-]{{30,}}"),
    Shape("npm", "npm_", r"npm_[A-Za-z0-9]{36,}"),
    Shape("pypi", "pypi-AgE", r"pypi-AgE[\w-]{50,}"),
    Shape("rubygems", "rubygems_", r"rubygems_[0-9a-f]{48}"),
    Shape("cargo", "cio", rf"cio{_free(3)}[A-Za-z0-9]{{32}}{_END}"),
    Shape("docker", "dckr_", r"dckr_(?:pat|oat)_[\w-]{20,}"),
    Shape("sendgrid", "SG.", rf"SG\.{_free(3)}[\w-]{{16,32}}\.[\w-]{{32,}}"),
    Shape("twilio", "SK", rf"SK{_free(2)}[0-9a-f]{{32}}{_END}"),
    Shape("mailgun", "key-", rf"key-(?<![\w-].{{4}})[0-9a-f]{{32}}{_END}"),
    Shape("mailchimp", "-us", r"(?<![0-9a-f])[0-9a-f]{32}-us\d{1,2}\b"),
    Shape("digitalocean", "_v1_", r"do[opr]_v1_[a-f0-9]{64}"),
    Shape("huggingface", "hf_", rf"hf_{_free(3)}[A-Za-z0-9]{{30,}}"),
    Shape("databricks", "dapi", rf"dapi{_free(4)}[0-9a-f]{{32}}(?:-\d)?"),
    Shape("vault", "hvs. hvb. hvr.", rf"hv[sbr]\.{_free(4)}{_MIXED}[\w-]{{24,}}"),
    Shape("terraform", "atlasv1", r"(?<![A-Za-z0-9])[A-Za-z0-9]{14}\.atlasv1\.[\w-]{60,}"),
    Shape("telegram", ":AA", r"\d{8,10}:AA[\w-]{33}(?![\w-])"),
    Shape("linear", "lin_", r"lin_(?:api|oauth)_[A-Za-z0-9]{32,}"),
    Shape("notion", "ntn_", r"ntn_[A-Za-z0-9]{40,}"),
    Shape("notion", "secret_", rf"secret_{_free(7)}[A-Za-z0-9]{{43}}{_END}"),
    Shape("figma", "figd_ figu_ figo_", r"fig[duo]_[\w-]{36,}"),
    Shape("shopify", "shpat_ shpca_ shppa_ shpss_ shptka_", r"shp(?:at|ca|pa|ss|tka)_[a-fA-F0-9]{32}"),
    Shape("grafana", "glsa_ glc_", r"gl(?:sa|c)_[A-Za-z0-9+/=_]{32,}"),
    Shape("newrelic", "NRAK- NRII-", r"NR(?:AK|II)-[\w-]{27,}"),
    Shape("postman", "PMAK-", r"PMAK-[a-f0-9]{24}-[a-f0-9]{34}"),
    Shape("supabase", "sbp_ sb_secret_", r"sb(?:p|_secret)_[\w-]{30,}"),
    Shape("groq", "gsk_", r"gsk_[A-Za-z0-9]{40,}"),
    Shape("perplexity", "pplx-", r"pplx-[A-Za-z0-9]{40,}"),
    Shape("replicate", "r8_", rf"r8_{_free(3)}[A-Za-z0-9]{{37,}}"),
    Shape("xai", "xai-", rf"xai-{_free(4)}[A-Za-z0-9]{{60,}}"),
    Shape("cerebras", "csk-", rf"csk-{_free(4)}[a-z0-9]{{40,}}"),
    Shape("nvidia", "nvapi-", rf"nvapi-{_DIGIT}[\w-]{{50,}}"),
    Shape("fireworks", "fw_", rf"fw_{_free(3)}[A-Za-z0-9]{{22,24}}{_END}"),
    Shape("tavily", "tvly-", rf"tvly-{_DIGIT}[A-Za-z0-9-]{{24,}}"),
    Shape("firecrawl", "fc-", rf"fc-{_free(3)}[0-9a-f]{{32}}{_END}"),
    Shape("brave", "BSA", rf"BSA{_free(3)}{_MIXED}(?=[A-Z\d_-]{{0,27}}[a-z])[\w-]{{28}}(?![\w-])"),
    Shape("e2b", "e2b_", r"e2b_[0-9a-f]{40}"),
    Shape("browserbase", "bb_live_", r"bb_live_[\w-]{20,}"),
    Shape("apify", "apify_api_", r"apify_api_[A-Za-z0-9]{30,}"),
    Shape("jina", "jina_", r"jina_[0-9a-f]{32}[\w-]{20,}"),
    Shape("pinecone", "pcsk_", r"pcsk_[A-Za-z0-9]{5,10}_[A-Za-z0-9]{40,}"),
    Shape("langsmith", "lsv2_", r"lsv2_(?:pt|sk)_[0-9a-f]{32}_[0-9a-f]{10}"),
    Shape("resend", "re_", rf"re_{_free(3)}[A-Za-z0-9]{{8}}_[A-Za-z0-9]{{20,}}"),
    Shape("atlassian", "ATATT3 ATCTT3", r"AT[AC]TT3[\w=-]{60,}"),
    Shape("sentry", "sntrys_ sntryu_", r"sntry[su]_[\w+/=-]{40,}"),
    Shape("airtable", "pat", rf"pat{_free(3)}[A-Za-z0-9]{{14}}\.[0-9a-f]{{64}}"),
    Shape("clickup", "pk_", rf"pk_{_free(3)}\d{{5,12}}_[A-Z0-9]{{32}}"),
    Shape("hubspot", "pat-", rf"pat-(?:na|eu)\d-{_UUID}"),
    Shape("asana", "1/ 2/", rf"[12]/{_free(2)}\d{{10,20}}(?:/\d{{10,20}})?:[0-9a-f]{{32}}"),
    Shape("heroku", "HRKU-", r"HRKU-[\w-]{36,}"),
    Shape("netlify", "nfp_", r"nfp_[A-Za-z0-9]{36,}"),
    Shape("neon", "napi_", r"napi_[a-z0-9]{40,}"),
    Shape("planetscale", "pscale_", r"pscale_(?:tkn|pw|oauth)_[\w=-]{20,}[\w.=-]*"),
    Shape("doppler", "dp.", rf"dp\.{_free(3)}(?:pt|st|ct|sa|scim|audit)\.(?:[\w-]{{2,35}}\.)?[A-Za-z0-9]{{40,}}"),
    Shape("tailscale", "tskey-", rf"tskey-[a-z]{{1,10}}-{_DIGIT}[\w-]{{20,}}"),
    Shape("fly", "fm1 fm2", r"fm[12][ar]?_[A-Za-z0-9+/=_]{20,}[A-Za-z0-9+/=,_]*"),
    Shape("dropbox", "sl.", rf"sl\.{_free(3)}(?:u\.)?{_DIGIT}{_UPPER}[\w-]{{100,}}"),
    Shape("square", "sq0 EAAA", r"sq0[a-z]{3}-[\w-]{22,}|EAAA(?<![A-Za-z0-9+/].{4})[\w-]{60,}"),
    Shape("circleci", "CCIPAT_ CCIPRJ_", r"CCIP(?:AT|RJ)_[A-Za-z0-9]{20,24}_[0-9a-f]{40}"),
    Shape("buildkite", "bkua_", r"bkua_[0-9a-f]{40}"),
    Shape("sonar", "squ_ sqp_ sqa_", r"sq[upa]_[0-9a-f]{40}"),
    Shape("sourcegraph", "sgp_", r"sgp_(?:[A-Fa-f0-9]{16}_|local_)?[0-9a-fA-F]{40}"),
    Shape("dynatrace", "dt0", r"dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}"),
    Shape("contentful", "CFPAT-", r"CFPAT-[\w-]{40,}"),
    Shape("1password", "ops_eyJ", r"ops_eyJ[\w-]{100,}"),
    Shape("mapbox", "sk.eyJ", r"sk\.eyJ[\w-]{20,}\.[\w-]{20,}"),
    Shape("azure", "AccountKey AccessKey", r"(?:Account|SharedAccess)Key=(?P<hide>[A-Za-z0-9+/]{40,}={0,2})"),
    Shape("bitbucket", "ATBB", rf"ATBB{_free(4)}{_MIXED}[A-Za-z0-9]{{24,}}"),
    Shape("trello", "ATTA", rf"ATTA{_free(4)}[0-9a-f]{{64}}"),
    Shape("pulumi", "pul-", rf"pul-{_free(4)}[0-9a-f]{{40}}"),
    Shape("vercel", "vca_ vci_ vck_ vcp_ vcr_", rf"vc[aikpr]_{_free(4)}{_MIXED}[A-Za-z0-9]{{24,}}"),
    Shape("vercel", "vercel_blob_rw_", r"vercel_blob_rw_[A-Za-z0-9]{10,}_[A-Za-z0-9]{20,}"),
    Shape("fly", "fo1_", rf"fo1_{_free(4)}[\w-]{{43,}}"),
    Shape("cloudflare", "v1.0-", rf"v1\.0-{_free(5)}[0-9a-f]{{24}}-[0-9a-f]{{146}}"),
    Shape("cloudflare", "cfk_ cfut_ cfat_", rf"cf(?:k_{_free(4)}|[ua]t_{_free(5)}){_MIXED}[A-Za-z0-9]{{40,}}"),
    Shape("jfrog", "AKCp cmVmd", rf"AKCp{_free(4)}{_MIXED}[A-Za-z0-9]{{60,}}|cmVmd{_free(5)}[A-Za-z0-9]{{59}}{_END}"),
    Shape("okta", "00", r"(?<![\w+/=.-])00(?=[\w-]{0,39}[A-Z])(?=[\w-]{0,39}[a-z])[\w-]{40}(?![\w+/=.-])"),
    Shape("easypost", "EZAK EZTK", rf"EZ[AT]K{_free(4)}[A-Za-z0-9]{{54}}"),
    Shape("launchdarkly", "api- sdk- mob- rel-", rf"(?:api|sdk|mob|rel)-(?<![\w-].{{4}}){_UUID}(?![\w-])"),
    Shape(
        "1password",
        "A3-",
        rf"A3-{_free(3)}[A-Z0-9]{{6}}-[A-Z0-9]{{6}}-?[A-Z0-9]{{5}}(?:-[A-Z0-9]{{5}}){{3}}",
    ),
    Shape("adobe", "p8e-", rf"p8e-{_free(4)}[A-Za-z0-9]{{32}}{_END}"),
    Shape("alibaba", "LTAI", rf"LTAI{_free(4)}{_MIXED}[A-Za-z0-9]{{20}}{_END}"),
    Shape(
        "authress",
        ".acc",
        r"(?:sc|ext|scauth|authress)_[a-z0-9]{5,30}\.[a-z0-9]{4,6}\.acc[_-][a-z0-9-]{10,32}\.[\w+/=-]{30,120}",
    ),
    Shape("clickhouse", "4b1d", rf"4b1d{_free(4)}{_MIXED}[A-Za-z0-9]{{38}}{_END}"),
    Shape("clojars", "CLOJARS_", r"CLOJARS_[A-Za-z0-9]{60}"),
    Shape("duffel", "duffel_", r"duffel_(?:test|live)_[\w=-]{43}"),
    Shape("facebook", "| %7C", r"(?<!\d)\d{15,16}(?:\||%7C)(?=[\w-]{0,26}[A-Z])[\w-]{27,40}(?![\w-])"),
    Shape("facebook", "EAAM EAAC", rf"EAA[MC]{_free(4)}[A-Za-z0-9]{{100,}}"),
    Shape("flutterwave", "FLWSECK", r"FLWSECK(?:_TEST)?-[a-z0-9]{12,}(?:-X)?"),
    Shape("frameio", "fio-u-", r"fio-u-[\w=-]{64}"),
    Shape("grafana", "eyJrIjoi", rf"eyJrIjoi{_free(8)}[A-Za-z0-9]{{70,}}={{0,3}}"),
    Shape("harness", "pat. sat.", rf"[ps]at\.{_free(4)}[\w-]{{22}}\.[A-Za-z0-9]{{24}}\.[A-Za-z0-9]{{20}}"),
    Shape("huggingface", "api_org_", r"api_org_[A-Za-z]{34}"),
    Shape("infracost", "ico-", rf"ico-{_free(4)}{_MIXED}[A-Za-z0-9]{{32}}{_END}"),
    Shape("intra42", "s-s4t2", r"s-s4t2(?:ud|af)-[0-9a-f]{64}"),
    Shape("maxmind", "_mmk", rf"(?<![A-Za-z0-9])[A-Za-z0-9]{{6}}_[A-Za-z0-9]{{29}}_mmk{_END}"),
    Shape("nuget", "oy2", rf"oy2{_free(3)}{_DIGIT}[a-z0-9]{{43}}{_END}"),
    Shape("octopus", "API-", rf"API-{_free(4)}{_DIGIT}[A-Z0-9]{{26}}{_END}"),
    Shape("openshift", "sha256~", r"sha256~[\w-]{43}"),
    Shape("prefect", "pnu_ pnb_", rf"pn[ub]_{_free(4)}[A-Za-z0-9]{{36}}"),
    Shape("readme", "rdme_", r"rdme_[a-z0-9]{70}"),
    Shape("scalingo", "tk-us-", rf"tk-us-{_free(6)}[\w-]{{48}}"),
    Shape("brevo", "xkeysib- xsmtpsib-", r"x(?:key|smtp)sib-[0-9a-f]{64}-[A-Za-z0-9]{16}"),
    Shape("settlemint", "sm_", rf"sm_{_free(3)}[aps]at_[A-Za-z0-9]{{16}}{_END}"),
    Shape("shippo", "shippo_", r"shippo_(?:live|test)_[0-9a-fA-F]{40}"),
    Shape("elevenlabs", "sk_", rf"sk_{_free(3)}[0-9a-f]{{48}}{_END}"),
    Shape("plaid", "access-", rf"access-(?:sandbox|development|production)-{_UUID}"),
    Shape("typeform", "tfp_", rf"tfp_{_free(4)}[\w.=-]{{44,}}"),
    Shape("posthog", "phx_", rf"phx_{_free(4)}[A-Za-z0-9]{{40,}}"),
    Shape("render", "rnd_", rf"rnd_{_free(4)}{_MIXED}[A-Za-z0-9]{{28,}}"),
    Shape("razorpay", "rzp_", r"rzp_(?:live|test)_[A-Za-z0-9]{14}"),
    Shape("braintree", "access_token$", r"access_token\$[a-z]{4,20}\$[a-z0-9]{16}\$[0-9a-f]{32}"),
    Shape("digitalocean", "DO00", rf"DO00{_free(4)}[A-Z0-9]{{16}}{_END}"),
    Shape("zoho", "1000.", rf"1000\.{_free(5)}[0-9a-f]{{32}}\.[0-9a-f]{{32}}"),
    Shape("voyage", "pa-", rf"pa-(?<![\w-].{{3}}){_MIXED}{_DIGIT}[\w-]{{43}}(?![\w-])"),
    Shape("together", "tgp_v1_", r"tgp_v1_[\w-]{40,}"),
    Shape("deno", "ddp_ ddw_", rf"dd[pw]_{_free(4)}[A-Za-z0-9]{{36}}"),
    Shape("yandex", "AQVN", rf"AQVN{_free(4)}{_MIXED}[\w-]{{35,38}}(?![\w-])"),
    Shape("age", "AGE-SECRET", r"AGE-SECRET-KEY-1[A-Z0-9]{58}"),
)
# A user id, a time and a signature. Its first characters are too common to be a sign.
_DISCORD = Shape("discord", ".", r"(?<![\w.-])[MNO][\w-]{23,27}\.[\w-]{6}\.(?=[\w-]{0,26}[A-Z])[\w-]{27,}(?![\w.-])")
_DISCORD_SIGN = pattern(r"(?a)\.[\w-]{6}\.[\w-]{27}")
ALL = (*NAMED, *SHORT, *LONG, _DISCORD)

_RARE = "~=DP-/"  # each short sign contains one of these characters; a text without any is ruled out at once
_SHORT_SIGNS = {sign: next(c for c in _RARE if c in sign) for sign in (shape.signs for shape in SHORT)}
_RUN = b"a" * 20
_IN_RUN = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+/=-"
_RUN_CHARACTERS = bytes(97 if byte in _IN_RUN else 32 for byte in range(256))


def hinted_shapes(text: bytes, named: bool) -> list[Shape]:
    """Return the shapes that a text may contain, with false positives only. `named`: it may contain a secret name."""
    wire = text.decode("latin-1")  # one character per byte: `in` is several times faster on str
    signs = [sign for sign, rare in _SHORT_SIGNS.items() if rare in wire and sign in wire]
    found = [shape for shape in SHORT if shape.signs in signs] if signs else []
    if named:
        found += [shape for shape in NAMED if any(sign in wire for sign in shape.signs.split())]
    if _has_run(text) and _has_run(text.replace(_NOTIFICATION, b"").replace(_META, b"")):
        marks = set(_any_sign().findall(wire))
        found += [LONG[number] for number in sorted({number for sign in marks for number in _shapes_of_sign(sign)})]
        if _DISCORD_SIGN.search(wire):
            found.append(_DISCORD)
    return found


def _has_run(text: bytes) -> bool:
    return _RUN in text.translate(_RUN_CHARACTERS)


@cache
def compile_shape(shape: Shape) -> re.Pattern[str]:
    """Compile a shape on first use: most sessions need none."""
    return re.compile(shape.pattern, re.ASCII)


@cache
def _shapes_of_sign(sign: str) -> list[int]:
    """Return the long shapes that a sign hints at: one sign may begin with another."""
    return [number for number, shape in enumerate(LONG) if sign.startswith(tuple(shape.signs.split()))]


@cache
def _any_sign() -> re.Pattern[str]:
    """Return one pattern that finds the longest sign at each position.

    Grouped by first letter, because `re` tries each branch.
    """
    tails: dict[str, list[str]] = {}
    for sign in sorted({sign for shape in LONG for sign in shape.signs.split()}, key=len, reverse=True):
        tails.setdefault(sign[0], []).append(re.escape(sign[1:]))
    grouped = "|".join(f"{re.escape(first)}(?:{'|'.join(rest)})" for first, rest in tails.items())
    return re.compile(f"(?=({grouped}))")


# -- private keys printed over several lines: each line is a frame, and only the first one identifies the key

# PEM (https://www.rfc-editor.org/rfc/rfc7468) and PGP, and PuTTY.
_EDGE = pattern(
    r"----[- ](?:(?P<begin>BEGIN)|END) (?:[A-Z0-9]{1,16} ){0,4}PRIVATE KEY"
    r"|Private-(?:(?P<lines>Lines): \d|MAC: [0-9a-f])"
)
_BODY = pattern(r"[A-Za-z0-9+/]{20}|(?:\A|[\s|:>\]])[A-Za-z0-9+/]*={0,2}\s*\Z|Proc-Type:|DEK-Info:")
_MOST_LINES = 400  # a key without an end must not swallow the rest of the log

Origin = tuple[int, str]  # a session and a channel


class PrivateKeys:
    """The channels that are within a private key."""

    def __init__(self) -> None:
        self._left: dict[Origin, int] = {}  # the most lines still to come

    def __bool__(self) -> bool:
        return bool(self._left)

    def watch(self, source: str, place: Origin) -> None:
        """Notice the beginning of a key in a text that is not JSON."""
        edges = _edges(source)
        if edges and edges[-1]:
            self._left[place] = _MOST_LINES

    def leave(self, place: Origin) -> None:
        """Forget a key that began there."""
        self._left.pop(place, None)

    def holds(self, text: bytes, place: Origin) -> bool:
        """Return whether the next text of a channel is a line of a key."""
        left = self._left.pop(place, 0)
        source = text.decode("utf-8", "surrogateescape")
        edges = _edges(source)
        if left > 1 and all(edges):
            self._left[place] = left - 1
        return left > 0 and not is_json(source) and bool(edges or _BODY.search(source))


def _edges(source: str) -> list[bool]:
    """Return for each edge of a key in a text whether it is a beginning."""
    return [bool(edge["begin"] or edge["lines"]) for edge in _EDGE.finditer(source)]
