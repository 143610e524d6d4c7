package images

import (
	"net/url"
	"regexp"
	"strings"
	"unicode"
)

const maxDetail = 300 // runes of foreign text shown in an error

var (
	urlText = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]+`)
	// A reference with credentials in front, as people paste it from a URL.
	userInfoText = regexp.MustCompile(`[^\s/@"']+:[^\s/@"']+@([^\s/@"']+/)`)
	schemeText   = regexp.MustCompile(`(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{8,}`)
	fieldText    = regexp.MustCompile(`(?i)(token|password|passwd|secret|auth)((?:\\?["'])\s*:\s*\\?["']|=)[^\s"'\\,}&]+`)
	// containers/image quotes the start of a token answer it cannot decode.
	bodyText = regexp.MustCompile(`body start "(?:[^"\\]|\\.)*"`)
)

// clean makes foreign text fit to be shown and stored: no credentials, no
// control characters, one line of bounded length.
func clean(s string) string {
	s = bodyText.ReplaceAllString(s, "body withheld")
	s = urlText.ReplaceAllStringFunc(s, cleanURL)
	s = userInfoText.ReplaceAllString(s, "[redacted]@$1")
	s = schemeText.ReplaceAllString(s, "$1 [redacted]")
	s = fieldText.ReplaceAllString(s, "$1$2[redacted]")
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == unicode.ReplacementChar {
			return ' '
		}
		return r
	}, s)
	if r := []rune(s); len(r) > maxDetail {
		s = string(r[:maxDetail]) + "…"
	}
	return s
}

// cleanURL keeps of a URL what tells where it leads.
func cleanURL(s string) string {
	trimmed := strings.TrimRight(s, ".,:;)]")
	u, err := url.Parse(trimmed)
	if err != nil {
		return "[URL]"
	}
	u.User, u.RawQuery, u.Fragment = nil, "", ""
	return u.String() + s[len(trimmed):]
}
