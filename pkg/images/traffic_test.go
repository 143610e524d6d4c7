package images_test

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/podtask/podtask/internal/testing/registrytest"
	"github.com/podtask/podtask/pkg/images"
)

// counted forwards connections to an address, and counts the bytes in both directions.
func counted(t *testing.T, to string, bytes *atomic.Int64) (address string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	move := func(into, from net.Conn) {
		defer into.Close()
		buffer := make([]byte, 4096)
		for {
			n, err := from.Read(buffer)
			bytes.Add(int64(n))
			if _, werr := into.Write(buffer[:n]); err != nil || werr != nil {
				return
			}
		}
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			go move(server, client)
			go move(client, server)
		}
	}()
	return l.Addr().String()
}

// TestALookCostsLittle: the daily look at a tag is one HEAD after the question for the kind of login, and less than 4 KiB without TLS.
func TestALookCostsLittle(t *testing.T) {
	t.Parallel()
	reg := registrytest.Start(t, registrytest.Options{})
	digest := push(t, reg, "app:1")
	var bytes atomic.Int64
	address := counted(t, reg.Addr(), &bytes)
	resolver := images.New(images.Options{
		AuthFile: file(t, "auth.json", []byte("{}")), RegistriesConf: file(t, "registries.conf", fmt.Appendf(nil, "[[registry]]\nlocation = %q\ninsecure = true\n", address)),
		RegistriesConfDir: t.TempDir(), CertsDir: t.TempDir(),
	})
	before := len(reg.Log())
	found, err := resolver.Resolve(t.Context(), address+"/app:1", images.Login{})
	if err != nil || found.Digest != digest {
		t.Fatalf("%+v, %v", found, err)
	}
	var asked []string
	for _, r := range reg.Log()[before:] {
		asked = append(asked, r.Method+" "+r.Path)
	}
	t.Logf("%d bytes for %s", bytes.Load(), strings.Join(asked, ", "))
	if got := strings.Join(asked, ", "); got != "GET /v2/, HEAD /v2/app/manifests/1" || bytes.Load() > 4<<10 {
		t.Errorf("%d bytes for %s", bytes.Load(), got)
	}
}
