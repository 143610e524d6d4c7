package taskdef

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"slices"
	"strings"

	"github.com/podtask/podtask/pkg/taskdef/doctree"
)

// Digest returns the digest of what a document says, "sha256:" and 64
// hexadecimal digits. It does not change with the order of members, white space,
// null members or the choice of JSON or YAML. The error is an *InvalidError for
// text that cannot be read at all.
func Digest(name string, src []byte) (string, error) { return ReadSource(name, src).Digest() }

// Digest is Digest of a document whose text has been read.
func (s Source) Digest() (string, error) {
	root, err := s.root()
	if err != nil {
		return "", err
	}
	h := sha256.New()
	digest(h, root)
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), nil
}

// digest writes n in a form that no other value has: each part follows its kind
// and length.
func digest(h hash.Hash, n *doctree.Node) {
	fmt.Fprintf(h, "%d:%d:%d:", n.Kind, len(n.Text), len(n.Items))
	if n.Kind == doctree.Text || n.Kind == doctree.Number || n.Kind == doctree.Boolean {
		h.Write([]byte(n.Text))
	}
	for _, item := range n.Items {
		digest(h, item)
	}
	fields := slices.DeleteFunc(slices.Clone(n.Fields), func(f doctree.Field) bool { return f.Value.Kind == doctree.Null })
	slices.SortStableFunc(fields, func(a, b doctree.Field) int { return strings.Compare(a.Key, b.Key) })
	fmt.Fprintf(h, "%d:", len(fields))
	for _, f := range fields {
		fmt.Fprintf(h, "%d:%s", len(f.Key), f.Key)
		digest(h, f.Value)
	}
}
