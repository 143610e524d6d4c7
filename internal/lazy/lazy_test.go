package lazy

import (
	"sync"
	"testing"
)

func TestValueIsMadeOnceAtItsFirstUse(t *testing.T) {
	t.Parallel()
	made := 0
	get := Value(func() []int { made++; return []int{made} })
	if made != 0 {
		t.Error("it is made before its first use")
	}
	var wg sync.WaitGroup
	for range 10 {
		wg.Go(func() {
			if v := get(); v[0] != 1 {
				t.Errorf("got %v", v)
			}
		})
	}
	wg.Wait()
}

func TestRegexpIsOneOfPackageRegexp(t *testing.T) {
	t.Parallel()
	bad := MustCompile("(")
	defer func() {
		if recover() == nil {
			t.Error("an expression that does not parse is used")
		}
	}()
	if re := MustCompile("a(b)"); !re.MatchString("ab") || re.FindStringSubmatch("xab")[1] != "b" || re.ReplaceAllString("ab", "$1") != "b" {
		t.Errorf("%s does not do what one of package regexp does", re)
	}
	bad.MatchString("")
}
