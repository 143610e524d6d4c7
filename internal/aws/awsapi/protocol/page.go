package protocol

import (
	"encoding/base64"
	"slices"
	"strings"
	"unicode"
)

// Paging are the members of lists.
type Paging struct {
	MaxResults *int   `json:"maxResults"`
	NextToken  string `json:"nextToken"`
}

// MaxPage is the greatest number of entries of a page.
const MaxPage = 100

// Page returns a page of keys, which are in the order of compare, and the token of the next
// one. A token names the last key of its page, so it outlives the process and survives
// keys that go away. List tells the tokens of different lists apart.
func Page(list string, p Paging, usual int, keys []string, compare func(a, b string) int) (some []string, next string, err error) {
	if err := Within("maxResults", p.MaxResults, 1, MaxPage); err != nil {
		return nil, "", err
	}
	size := usual
	if p.MaxResults != nil {
		size = *p.MaxResults
	}
	if p.NextToken != "" {
		last, err := ReadToken(list, p.NextToken)
		if err != nil {
			return nil, "", err
		}
		from := slices.IndexFunc(keys, func(k string) bool { return compare(k, last) > 0 })
		if from < 0 {
			from = len(keys)
		}
		keys = keys[from:]
	}
	if len(keys) > size {
		keys = keys[:size]
		next = MakeToken(list, keys[size-1])
	}
	return append([]string{}, keys...), next, nil
}

// MakeToken makes the token of a list's key.
func MakeToken(list, key string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(list + "\n" + key))
}

// ReadToken reads a token of MakeToken. One of another list is an InvalidParameterException.
func ReadToken(list, token string) (last string, err error) {
	text, err := base64.RawURLEncoding.DecodeString(token)
	if err == nil {
		if rest, ok := strings.CutPrefix(string(text), list+"\n"); ok {
			return rest, nil
		}
	}
	return "", Invalidf("nextToken: this is not a token of %s with these filters", operationOf(list))
}

// operationOf is the operation of a list: the list tells lists with other filters apart behind it.
func operationOf(list string) string {
	words := strings.FieldsFunc(list, func(r rune) bool { return !unicode.IsLetter(r) })
	if len(words) == 0 {
		return list
	}
	return words[0]
}
