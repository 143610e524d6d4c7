package libpod

import "testing"

func TestSizeOfATmpfsIsInPages(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ typ, o, want string }{
		{"tmpfs", "gid=0,mode=0777,size=8388609", "gid=0,mode=0777,nr_blocks=2049"},
		{"tmpfs", "size=8m", "size=8m"},
		{"tmpfs", "", ""},
		{"", "size=1", "size=1"},
	} {
		in := map[string]string{"type": tt.typ, "o": tt.o}
		if got := inPages(in, 4096)["o"]; got != tt.want || in["o"] != tt.o {
			t.Errorf("%q of type %q: %q, want %q", tt.o, tt.typ, got, tt.want)
		}
	}
}
