package ingressbox

import (
	"encoding/xml"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/summerwind/h2spec"
	"github.com/summerwind/h2spec/config"
)

// report is what h2spec writes for JUnit.
type report struct {
	Suites []struct {
		Package string `xml:"package,attr"`
		ID      string `xml:"id,attr"`
		Cases   []struct {
			Package   string `xml:"package,attr"`
			ClassName string `xml:"classname,attr"`
			Failure   *struct {
				Text string `xml:",innerxml"`
			} `xml:"failure"`
			Error *struct {
				Text string `xml:",innerxml"`
			} `xml:"error"`
		} `xml:"testcase"`
	} `xml:"testsuite"`
}

// otherwise are the cases that net/http answers in another way than h2spec wants, with the reason.
var otherwise = map[string]string{
	"http2/6.5.3: Sends multiple values of SETTINGS_INITIAL_WINDOW_SIZE":                                            "a SETTINGS frame that has a setting twice ends the connection, because no client needs it",
	"http2/8.1.2.2: Sends a HEADERS frame that contains the connection-specific header field":                       "the answer is 400 before the request reaches a copy, which RFC 9113, 8.1.1, allows",
	"http2/8.1.2.2: Sends a HEADERS frame that contains the TE header field with any value other than \"trailers\"": "the same",
}

// The cases of h2spec pass, the strict ones too, but for those that net/http answers otherwise.
func TestH2Spec(t *testing.T) {
	p := start(t, to("https://127.0.0.1", serve(t, http.HandlerFunc(hello)), ""))
	host, text, err := net.SplitHostPort(p.secure)
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "report.xml")
	passed, err := h2spec.Run(&config.Config{Host: host, Port: port, Path: "/", Timeout: 5 * time.Second, MaxHeaderLen: 4000, TLS: true, Insecure: true, Strict: true, JUnitReport: file})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := xml.Unmarshal(data, &r); err != nil {
		t.Fatal(err)
	}
	cases, failed := 0, 0
	for _, s := range r.Suites {
		for _, c := range s.Cases {
			cases++
			name := c.Package + ": " + c.ClassName
			what := c.Failure
			if what == nil {
				what = c.Error
			}
			_, known := otherwise[name]
			switch {
			case what == nil && known:
				t.Errorf("%s passes: it is no exception any more", name)
			case what != nil && !known:
				t.Errorf("%s: %s", name, what.Text)
			}
			if what != nil {
				failed++
			}
		}
	}
	if cases < 140 || passed != (failed == 0) {
		t.Errorf("%d cases ran, %d failed, and h2spec says passed: %t", cases, failed, passed)
	}
	t.Logf("%d cases, %d answered otherwise", cases, failed)
}
