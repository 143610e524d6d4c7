package deliver_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/mail"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/podtask/podtask/internal/notice"
	"github.com/podtask/podtask/internal/notice/deliver"
	"github.com/podtask/podtask/internal/testing/freeport"
)

const secret = "s3cret-of-the-test"

var at = time.Date(2026, 3, 1, 3, 0, 0, 0, time.UTC)

func sender() deliver.Sender {
	return deliver.Sender{
		Host: "bed", Version: "test", Getenv: os.Getenv, Now: func() time.Time { return at },
		Secret: func(_ context.Context, source string) ([]byte, error) {
			switch {
			case source == "file:/key":
				return []byte(secret + "\n"), nil
			case strings.HasPrefix(source, "file:/url="):
				return []byte(strings.TrimPrefix(source, "file:/url=") + "\n"), nil
			}
			return nil, errors.New("it cannot be read: no such file")
		},
	}
}

func message() notice.Message {
	code := 3
	return notice.Message{
		ID: "0123456789abcdef0123456789abcdef", Rule: "night", Created: at, At: at, Since: at, Count: 1, Condition: notice.Failed, Seq: 7, Subject: "service/web",
		About:  notice.About{Kind: notice.Task, Name: "web-1", Task: "feedc0de", Family: "app", Service: "web"},
		Status: "STOPPED", Reason: "EssentialContainerExited: <b>é</b> & \"quoted\"", ExitCode: &code,
	}
}

// webhook returns a server that answers with a status, and what it was sent.
func webhook(t *testing.T, status int) (*httptest.Server, *[]*http.Request, *[]string) {
	t.Helper()
	var requests []*http.Request
	var bodies []string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		requests, bodies = append(requests, r), append(bodies, string(b))
		w.Header().Set("Retry-After", "120")
		w.Header().Set("Location", "/other")
		w.WriteHeader(status)
	}))
	t.Cleanup(s.Close)
	return s, &requests, &bodies
}

func TestWebhookIsSigned(t *testing.T) {
	t.Parallel()
	s, requests, bodies := webhook(t, 204)
	target := deliver.Target{URL: s.URL + "/hook", Format: "json", Key: "file:/key", Token: "file:/key"}
	if err := sender().Send(t.Context(), target, message()); err != nil {
		t.Fatal(err)
	}
	r, body := (*requests)[0], (*bodies)[0]
	want := deliver.Sign(secret, r.Header.Get("Webhook-Id"), r.Header.Get("Webhook-Timestamp"), []byte(body))
	if r.Header.Get("Webhook-Signature") != want || r.Header.Get("Webhook-Id") != message().ID || r.Header.Get("Authorization") != "Bearer "+secret {
		t.Errorf("headers are %v", r.Header)
	}
	var d deliver.Document
	if err := json.Unmarshal([]byte(body), &d); err != nil || d.ID != message().ID || d.State != "firing" || d.About.Service != "web" || *d.Exit != 3 {
		t.Errorf("%v: %s", err, body)
	}
	if strings.Contains(body, secret) {
		t.Error("the secret is in the notice")
	}
}

// TestSignature is the example of the specification of Standard Webhooks.
func TestSignature(t *testing.T) {
	t.Parallel()
	got := deliver.Sign("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "msg_p5jXN8AQM9LWM0D4loKWxJek", "1614265330", []byte(`{"test": 2432232314}`))
	if want := "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="; got != want {
		t.Errorf("the signature is %s, want %s", got, want)
	}
}

func TestFormats(t *testing.T) {
	t.Parallel()
	for format, want := range map[string][]string{
		"slack":        {`"text":"service web has failed\n`, `\u0026lt;b\u0026gt;`},
		"discord":      {`"content":"service web has failed\n`, `"allowed_mentions":{"parse":[]}`},
		"matrix":       {`"msgtype":"m.text"`, "PUT /hook/" + message().ID},
		"ntfy":         {"service web has failed\n", "Title: service web has failed", "Priority: 4"},
		"alertmanager": {`"alertname":"podtask-failed"`, `"startsAt":"2026-03-01T03:00:00Z"`, `"endsAt":"2026-03-08T03:00:00Z"`, `"subject":"service/web"`},
		"eventbridge": {
			`"detail-type":"ECS Task State Change"`, `"id":"01234567-89ab-cdef-0123-456789abcdef"`, `"lastStatus":"STOPPED"`, `"stopCode":"EssentialContainerExited"`,
			`"group":"service:web"`, `"source":"aws.ecs"`, `arn:aws:ecs:local:000000000000:task/default/feedc0de`,
		},
	} {
		s, requests, bodies := webhook(t, 200)
		if err := sender().Send(t.Context(), deliver.Target{URL: s.URL + "/hook", Format: format}, message()); err != nil {
			t.Errorf("%s: %v", format, err)
			continue
		}
		r := (*requests)[0]
		all := fmt.Sprintf("%s %s\n%s\n", r.Method, r.URL.Path, (*bodies)[0])
		for name := range r.Header {
			all += name + ": " + r.Header.Get(name) + "\n"
		}
		for _, w := range want {
			if !strings.Contains(all, w) {
				t.Errorf("%s has no %s:\n%s", format, w, all)
			}
		}
	}
}

func TestDeploymentsAndWellInOtherFormats(t *testing.T) {
	t.Parallel()
	s, _, bodies := webhook(t, 200)
	m := message()
	m.Condition, m.About = notice.RolledBack, notice.About{Kind: notice.Service, Name: "web", Service: "web", Family: "web/2"}
	well := message()
	well.Well = true
	for _, send := range []struct {
		format string
		m      notice.Message
		want   string
	}{
		{"eventbridge", m, `"eventName":"SERVICE_DEPLOYMENT_FAILED"`},
		{"alertmanager", well, `"endsAt":"2026-03-01T03:00:00Z"`},
		{"json", well, `"state":"resolved"`},
	} {
		if err := sender().Send(t.Context(), deliver.Target{URL: s.URL, Format: send.format}, send.m); err != nil {
			t.Fatal(err)
		}
		if body := (*bodies)[len(*bodies)-1]; !strings.Contains(body, send.want) {
			t.Errorf("%s has no %s: %s", send.format, send.want, body)
		}
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for status, refused := range map[int]bool{302: true, 400: true, 401: false, 404: true, 429: false, 500: false, 503: false} {
		s, requests, _ := webhook(t, status)
		err := sender().Send(t.Context(), deliver.Target{URLFrom: "file:/url=" + s.URL + "/very-secret", Format: "json"}, message())
		var e *deliver.Error
		if !errors.As(err, &e) || e.Refused != refused || e.After != 2*time.Minute || len(*requests) != 1 || strings.Contains(e.Text, "secret") {
			t.Errorf("%d: %v after %d requests", status, err, len(*requests))
		}
	}
}

func TestErrorsHaveNoSecret(t *testing.T) {
	t.Parallel()
	address := fmt.Sprintf("127.0.0.1:%d", freeport.For(t))
	for name, target := range map[string]deliver.Target{
		"nobody listens":   {URLFrom: "file:/url=http://" + address + "/very-secret"},
		"no URL":           {URLFrom: "file:/url=very-secret"},
		"control":          {URLFrom: "file:/url=http://very-secret\x7f/"},
		"not encrypted":    {URLFrom: "file:/url=http://192.0.2.1/very-secret"},
		"a missing secret": {URL: "http://" + address, Key: "file:/gone"},
	} {
		if err := sender().Send(t.Context(), target, message()); err == nil || strings.Contains(err.Error(), "very-secret") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestCheckURL(t *testing.T) {
	t.Parallel()
	for text, ok := range map[string]bool{
		"https://hooks.example.com/x": true, "http://127.0.0.1:8080/x": true, "http://[::1]/x": true, "http://192.168.1.5/x": false,
		"https://user:word@example.com/": false, "ftp://example.com": false, "https:///x": false, "https://example.com/#x": false, "": false,
	} {
		if err := deliver.CheckURL(text, true); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// mailServer is a small SMTP server. It returns its address, and the letters that it gets.
func mailServer(t *testing.T, refuse bool) (address string, letters chan string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	letters = make(chan string, 10)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go serveMail(c, refuse, letters)
		}
	}()
	return l.Addr().String(), letters
}

func serveMail(c net.Conn, refuse bool, letters chan<- string) {
	defer c.Close()
	in := bufio.NewScanner(c)
	say := func(line string) { fmt.Fprint(c, line+"\r\n") }
	say("220 test")
	log := ""
	for in.Scan() {
		line := in.Text()
		log += line + "\n"
		switch verb, _, _ := strings.Cut(line, " "); verb {
		case "EHLO":
			say("250-test")
			say("250 AUTH PLAIN")
		case "AUTH":
			say("235 welcome")
		case "RCPT":
			if refuse {
				say("550 no such user\x1b[2J")
				continue
			}
			say("250 ok")
		case "DATA":
			say("354 go on")
			for in.Scan() && in.Text() != "." {
				log += in.Text() + "\n"
			}
			say("250 taken")
			letters <- log
		case "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

func TestMail(t *testing.T) {
	t.Parallel()
	address, letters := mailServer(t, false)
	m := message()
	m.Reason = "first\r\nBcc: evil@example.com\r\n.\r\nQUIT"
	target := deliver.Target{Mail: &deliver.Mail{Server: address, User: "podtask", Password: "file:/key", From: "podtask@example.com", Recipients: []string{"a@example.com", "b@example.com"}}}
	if err := sender().Send(t.Context(), target, m); err != nil {
		t.Fatal(err)
	}
	log := <-letters
	auth := "AUTH PLAIN " + base64.StdEncoding.EncodeToString([]byte("\x00podtask\x00"+secret))
	for _, want := range []string{auth, "MAIL FROM:<podtask@example.com>", "RCPT TO:<a@example.com>", "RCPT TO:<b@example.com>"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in:\n%s", want, log)
		}
	}
	_, text, _ := strings.Cut(log, "DATA\n")
	letter, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(base64.NewDecoder(base64.StdEncoding, letter.Body))
	if err != nil {
		t.Fatal(err)
	}
	if letter.Header.Get("Subject") != "[bed] service web has failed" || letter.Header.Get("Message-Id") != "<"+m.ID+"@podtask.bed>" || letter.Header.Get("Bcc") != "" || !strings.Contains(string(body), "first Bcc: evil@example.com . QUIT") {
		t.Errorf("the letter is %v\n%s", letter.Header, body)
	}
}

func TestMailIsRefused(t *testing.T) {
	t.Parallel()
	address, _ := mailServer(t, true)
	err := sender().Send(t.Context(), deliver.Target{Mail: &deliver.Mail{Server: address, From: "a@example.com", Recipients: []string{"b@example.com"}}}, message())
	var e *deliver.Error
	if !errors.As(err, &e) || !e.Refused || strings.Contains(e.Text, "\x1b") {
		t.Errorf("error is %v", err)
	}
}

// TestAMailServerWithoutEnd: what a server says is kept until its answer ends, so it has a limit.
func TestAMailServerWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, line := range map[string]string{"many lines": "220-hello\r\n", "one line": "220 xxxxxxxxxxxxxxxxxxxx"} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() {
			c, err := l.Accept()
			for err == nil {
				_, err = io.WriteString(c, strings.Repeat(line, 1000))
			}
			c.Close()
		}()
		err = sender().Send(t.Context(), deliver.Target{Mail: &deliver.Mail{Server: l.Addr().String(), From: "a@example.com", Recipients: []string{"b@example.com"}}}, message())
		if err == nil || !strings.Contains(err.Error(), "says more than 262144 bytes") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestNoHeaderOfAMailIsInjected: whatever stands in the names and reasons of a notice, and in the name of the host, the letter has the
// same headers and one part, and the server gets the same commands.
func TestNoHeaderOfAMailIsInjected(t *testing.T) {
	t.Parallel()
	const evil = "x\r\nBcc: evil@example.com\r\n\r\n<script>\r\n.\r\nMAIL FROM:<evil@example.com>\r\n"
	address, letters := mailServer(t, false)
	s, m := sender(), message()
	s.Host = evil
	m.About = notice.About{Kind: notice.Task, Name: evil, Task: evil, Family: evil, Service: evil, Container: evil}
	m.Reason, m.Status, m.Subject, m.Others, m.Count = evil, evil, evil, []string{evil}, 3
	if err := s.Send(t.Context(), deliver.Target{Mail: &deliver.Mail{Server: address, From: "a@example.com", Recipients: []string{"b@example.com"}}}, m); err != nil {
		t.Fatal(err)
	}
	log := <-letters
	if strings.Contains(log, "\nBcc") || strings.Count(log, "\nMAIL FROM") != 1 || !strings.Contains(log, "EHLO localhost\n") {
		t.Errorf("the server got:\n%s", log)
	}
	_, text, _ := strings.Cut(log, "DATA\n")
	letter, err := mail.ReadMessage(strings.NewReader(text))
	if err != nil || len(letter.Header) != 9 || letter.Header.Get("Bcc") != "" {
		t.Errorf("the letter is %v, %v", letter, err)
	}
}

func TestCommand(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "out")
	target := deliver.Target{Command: []string{"/bin/sh", "-c", `{ cat; echo; echo "$PODTASK_NOTICE_ID $GOPATH_OF_TEST"; } > "$0"`, out}}
	if err := sender().Send(t.Context(), target, message()); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(out)
	if err != nil || !strings.Contains(string(text), `"title":"service web has failed"`) || !strings.HasSuffix(string(text), "\n"+message().ID+" \n") {
		t.Errorf("%v: %s", err, text)
	}
	err = sender().Send(t.Context(), deliver.Target{Command: []string{"/bin/sh", "-c", "exit 7"}}, message())
	if err == nil || !strings.Contains(err.Error(), "exit status 7") {
		t.Errorf("error is %v", err)
	}
}
