package proxy

import (
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/ingress/routefile"
)

// The program behind a route may read a path in another way than the proxy: it may decode it once more, take a
// backslash for a slash, cut parameters (";...") from each segment as Java servlets do, or ignore case. Then it
// answers for a path that belongs to another route, perhaps one with a password. So the proxy looks at every path
// that such readers may make of a request's path, and refuses what they read as another address.

const (
	// maxReadings and maxReadingBytes bound the readings of one path. Only a path that was made to be read in
	// many ways has more.
	maxReadings     = 256
	maxReadingBytes = 1 << 20
)

// reader changes a path in one way in which programs do.
type reader func(string) string

// structural are the ways in which widespread programs read paths, and strict tells them from those that
// only matter for passwords. They work on escaped and on decoded text.
var structural = []reader{
	func(p string) string { return strings.ReplaceAll(p, `\`, "/") }, // Windows, browsers
	cutParameters, // Tomcat, Jetty, Undertow, Spring: parameters belong to a segment
	cutAll(';'),   // the same, if they end the path
	cutAll('?'),   // an escaped mark that is decoded before the query is split off
	cutAll('#'),
	cutAll(0), // C strings
	mergeSlashes,
	removeDots, // RFC 3986: //.. goes up by the empty segment
	func(p string) string { return path.Clean("/" + p) }, // slashes first, then dots
}

// decoding are the ways to decode a path.
var decoding = []reader{
	unescape,
	plainCharacters,
}

// loose are the readings of few programs, for which a path without password is a page of its own for all others.
var loose = []reader{
	trimSegments,  // Windows, Flask, Node.js: spaces, control characters and dots at the ends of names
	dropControls,  // URL parsers of browsers
	cutStreamName, // NTFS: name::$DATA
}

// confusing reports whether the path of a URL leads to another route than the one that was found by it, once other
// programs have read it.
func confusing(t routefile.Table, secure bool, host string, u *url.URL, found routefile.Route) bool {
	escaped, decoded := u.EscapedPath(), u.Path
	if strings.ContainsRune(decoded, 0) {
		return true
	}
	if found.Address().Path == "/" && t.Single(secure, host) {
		return false // all paths lead there
	}
	if !isOrdinary(escaped) {
		seen := readings{}
		seen.add(escaped)
		seen.close(structural)
		before := seen.list
		seen = readings{full: seen.full}
		seen.add(decoded)
		for _, p := range before {
			seen.add(unescape(p))
		}
		seen.close(structural, decoding)
		if seen.full {
			return true
		}
		for _, p := range seen.list {
			if other, is := t.Find(secure, host, p); !is || other.Key() != found.Key() {
				return true
			}
		}
		seen.close(structural, decoding, loose)
		if seen.full {
			return true
		}
		for _, p := range seen.list {
			if opens(t, secure, host, p, found) {
				return true
			}
		}
		return false
	}
	return opens(t, secure, host, decoded, found)
}

// opens reports whether a path belongs to a route with another password than found has, for programs that ignore
// case or take an extension for a format (/admin.json).
func opens(t routefile.Table, secure bool, host, p string, found routefile.Route) bool {
	differs := func(p string) (routefile.Route, bool) {
		other, is := t.FindFold(secure, host, p)
		return other, is && other.Auth != "" && other.Auth != found.Auth
	}
	if _, does := differs(p); does {
		return true
	}
	other, does := differs(cutExtension(p))
	return does && other.Service == found.Service
}

// isOrdinary reports whether all programs read a path in one way, but for case and extensions.
func isOrdinary(escaped string) bool {
	for i := range len(escaped) {
		switch c := escaped[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_', c == '~', c == '@', c == '+', c == '=', c == ',':
		case c == '/':
			if i > 0 && escaped[i-1] == '/' {
				return false
			}
		case c == '.': // a name with a dot within it
			if escaped[i-1] == '/' || escaped[i-1] == '.' || i == len(escaped)-1 || escaped[i+1] == '/' {
				return false
			}
		default:
			return false
		}
	}
	return true
}

// readings are different texts.
type readings struct {
	list  []string
	known map[string]bool
	bytes int
	full  bool // not all were kept
}

func (r *readings) add(p string) {
	if r.known[p] || r.full {
		return
	}
	if r.full = len(r.list) >= maxReadings || r.bytes+len(p) > maxReadingBytes && len(r.list) > 0; r.full {
		return
	}
	if r.known == nil {
		r.known = make(map[string]bool)
	}
	r.known[p], r.list, r.bytes = true, append(r.list, p), r.bytes+len(p)
}

// close adds what readers make of the texts, and of that, until there is nothing new.
func (r *readings) close(readers ...[]reader) {
	for i := 0; i < len(r.list) && !r.full; i++ {
		for _, group := range readers {
			for _, read := range group {
				r.add(read(r.list[i]))
			}
		}
	}
}

func cutAll(mark byte) reader {
	return func(p string) string {
		if i := strings.IndexByte(p, mark); i > 0 {
			return p[:i]
		}
		return p
	}
}

// perSegment changes each segment of a path.
func perSegment(p string, change func(string) string) string {
	segments := strings.Split(p, "/")
	for i, s := range segments {
		segments[i] = change(s)
	}
	return strings.Join(segments, "/")
}

func cutParameters(p string) string {
	if !strings.Contains(p, ";") {
		return p
	}
	return perSegment(p, func(s string) string { name, _, _ := strings.Cut(s, ";"); return name })
}

func cutStreamName(p string) string {
	if !strings.Contains(p, "::$") {
		return p
	}
	return perSegment(p, func(s string) string { name, _, _ := strings.Cut(s, "::$"); return name })
}

func mergeSlashes(p string) string {
	for strings.Contains(p, "//") {
		p = strings.ReplaceAll(p, "//", "/")
	}
	return p
}

// removeDots resolves . and .. as RFC 3986 does, for which an empty segment is one.
func removeDots(p string) string {
	var kept []string
	for s := range strings.SplitSeq(strings.TrimPrefix(p, "/"), "/") {
		switch s {
		case ".":
		case "..":
			kept = kept[:max(0, len(kept)-1)]
		default:
			kept = append(kept, s)
		}
	}
	return "/" + strings.Join(kept, "/")
}

// trimSegments removes what some programs ignore at the ends of a name.
func trimSegments(p string) string {
	return perSegment(p, func(s string) string {
		start, end := 0, len(s)
		for start < end && isBlank(s[start]) {
			start++
		}
		for end > start && isBlank(s[end-1]) {
			end--
		}
		s = s[start:end]
		if name := strings.TrimRight(s, ". "); name != "" {
			return name
		}
		return s
	})
}

// isBlank reports spaces and control characters, also those above 0x7F.
func isBlank(c byte) bool { return c <= ' ' || c == 0x7f || c == 0x85 || c == 0xa0 }

func dropControls(p string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return -1
		}
		return r
	}, p)
}

// cutExtension removes what follows the first dot of the last segment.
func cutExtension(p string) string {
	p = strings.TrimRight(p, "/")
	last := strings.LastIndexByte(p, '/') + 1
	if i := strings.IndexByte(p[last:], '.'); i > 0 {
		return p[:last+i]
	}
	return p
}

// unescape decodes a path once. %uXXXX is a character for IIS; what is no escape stays.
func unescape(p string) string {
	if !strings.Contains(p, "%") {
		return p
	}
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); {
		if p[i] == '%' {
			if digits := p[i+1:]; len(digits) >= 5 && (digits[0] == 'u' || digits[0] == 'U') {
				if n, err := strconv.ParseUint(digits[1:5], 16, 32); err == nil {
					out = utf8.AppendRune(out, rune(n))
					i += 6
					continue
				}
			} else if len(digits) >= 2 {
				if n, err := strconv.ParseUint(digits[:2], 16, 8); err == nil {
					out = append(out, byte(n))
					i += 3
					continue
				}
			}
		}
		out = append(out, p[i])
		i++
	}
	return string(out)
}

// plainCharacters returns a path with ASCII characters where some decoders make them: of UTF-8 with more
// bytes than needed, and of full-width and similar forms of dots, slashes and letters.
func plainCharacters(p string) string {
	plain := true
	for i := range len(p) {
		plain = plain && p[i] < utf8.RuneSelf
	}
	if plain {
		return p
	}
	out := make([]byte, 0, len(p))
	for i := 0; i < len(p); {
		r, n := utf8.DecodeRuneInString(p[i:])
		if r == utf8.RuneError && n == 1 {
			if c, size := overlong(p[i:]); size > 0 {
				out, i = append(out, c), i+size
				continue
			}
			out = append(out, p[i])
		} else {
			out = append(out, similar(r)...)
		}
		i += n
	}
	return string(out)
}

// overlong decodes an ASCII character that is written in two to four bytes.
func overlong(p string) (c byte, size int) {
	var n uint32
	switch b := p[0]; {
	case b == 0xc0 || b == 0xc1:
		n, size = uint32(b&0x1f), 2
	case b == 0xe0:
		size = 3
	case b == 0xf0:
		size = 4
	default:
		return 0, 0
	}
	if len(p) < size {
		return 0, 0
	}
	for _, b := range []byte(p[1:size]) {
		if b&0xc0 != 0x80 { // IIS took any byte
			b &= 0x3f
		}
		n = n<<6 | uint32(b&0x3f)
	}
	if n >= utf8.RuneSelf {
		return 0, 0
	}
	return byte(n), size
}

// similar returns the ASCII text for a character that some programs replace by it.
func similar(r rune) string {
	switch {
	case r >= 0xff01 && r <= 0xff5e:
		return string(r - 0xff01 + '!')
	case r == 0x2024:
		return "."
	case r == 0x2025:
		return ".."
	case r == 0x2044, r == 0x2215, r == 0x29f8:
		return "/"
	case r == 0x2216, r == 0x29f5, r == 0x29f9, r == 0xfe68:
		return `\`
	}
	return string(r)
}
