package taskdef

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"
)

// Digest returns the digest of what a document says, "sha256:" and 64
// hexadecimal digits. It does not change with the order of members, white space,
// null members or the choice of JSON or YAML. The error is an *InvalidError for
// text that cannot be read at all.
func Digest(name string, src []byte) (string, error) {
	root, err := read(name, src)
	if err != nil {
		return "", err
	}
	h := sha256.New()
	root.digest(h)
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// digest writes n in a form that no other value has: each part behind its kind
// and length.
func (n *node) digest(h hash.Hash) {
	fmt.Fprintf(h, "%d:%d:%d:", n.kind, len(n.text), len(n.items))
	if n.kind == text || n.kind == number || n.kind == boolean {
		h.Write([]byte(n.text))
	}
	for _, item := range n.items {
		item.digest(h)
	}
	fields := slices.DeleteFunc(slices.Clone(n.fields), func(f field) bool { return f.value.kind == null })
	slices.SortStableFunc(fields, func(a, b field) int { return strings.Compare(a.key, b.key) })
	fmt.Fprintf(h, "%d:", len(fields))
	for _, f := range fields {
		fmt.Fprintf(h, "%d:%s", len(f.key), f.key)
		f.value.digest(h)
	}
}
