package catalog

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// Ref names a family, or a revision of one.
type Ref struct {
	Family   string
	Revision int // 0: the highest active one
}

var familyPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,255}$`)

// maxRef is more than a reference can have: an ARN with a family of 255 letters.
const maxRef = 1024

// ParseRef reads FAMILY, FAMILY:REVISION, or the ARN of a task definition, of
// which the end counts.
func ParseRef(s string) (Ref, error) {
	if len(s) > maxRef {
		return Ref{}, fmt.Errorf("a text of %d bytes is not FAMILY or FAMILY:REVISION", len(s))
	}
	name := s
	if strings.HasPrefix(s, "arn:") {
		_, name, _ = strings.Cut(s, ":task-definition/")
	}
	family, number, numbered := strings.Cut(name, ":")
	r := Ref{Family: family}
	if !familyPattern.MatchString(family) {
		return Ref{}, fmt.Errorf("%q is not FAMILY or FAMILY:REVISION", s)
	}
	if numbered {
		n, err := strconv.ParseUint(number, 10, 31)
		if err != nil || n == 0 || number[0] == '0' || number[0] == '+' {
			return Ref{}, fmt.Errorf("%q is not FAMILY:REVISION: a revision is a number from 1", s)
		}
		r.Revision = int(n)
	}
	return r, nil
}

// String is the inverse of ParseRef.
func (r Ref) String() string {
	if r.Revision == 0 {
		return r.Family
	}
	return fmt.Sprintf("%s:%d", r.Family, r.Revision)
}
