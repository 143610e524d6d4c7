package images

import (
	"strings"
	"testing"
	"unicode"
)

func TestCleanRemovesSecrets(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ rule, in, keep string }{
		{"user information of a URL", "Get https://bob:SECRET@host:5000/v2/: refused", "host:5000/v2/: refused"},
		{"query of a URL", `Get "http://h/token?account=SECRET&scope=x": EOF`, `"http://h/token": EOF`},
		{"a URL that does not parse", "at http://%zz:SECRET@h/ x", "[URL] x"},
		{"a bearer token", "sent Bearer SECRETSECRET.x-y", "Bearer [redacted]"},
		{"basic credentials", "sent Basic U0VDUkVUSECRET==", "Basic [redacted]"},
		{"a token in JSON", `got {"token":"SECRET","n":1}`, `"n":1`},
		{"a token in quoted JSON", `got "{\"access_token\":\"SECRET\"}"`, "got"},
		{"a form field", "body password=SECRET&x=1", "&x=1"},
		{"the start of an undecodable token", `decoding bearer token (last URL "http://h/t", body start "\"SECRET"): EOF`, "body withheld): EOF"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			got := clean(tc.in)
			if strings.Contains(got, "SECRET") || !strings.Contains(got, tc.keep) {
				t.Errorf("clean(%q) = %q, want no SECRET, but %q", tc.in, got, tc.keep)
			}
		})
	}
}

func FuzzClean(f *testing.F) {
	f.Add("Get https://bob:x@h/?q: y\n\x1b[31m")
	f.Add(strings.Repeat("é", 400))
	f.Fuzz(func(t *testing.T, s string) {
		got := clean(s)
		if n := len([]rune(got)); n > maxDetail+1 {
			t.Errorf("%d runes", n)
		}
		if strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("control character in %q", got)
		}
	})
}
