package awscall

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"github.com/podtask/podtask/internal/aws/sigv4"
)

func TestAnswersOfAService(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		status          int
		body            string
		code            string
		passing, refuse bool
		message         string
	}{
		{200, `{"a":1}`, "", false, false, ""},
		{400, `{"__type":"com.amazonaws.ecs#ClientException","message":"no"}`, "ClientException", false, true, "Do: ClientException: no"},
		{400, `{"__type":"ThrottlingException","Message":"slow"}`, "ThrottlingException", true, false, "Do: ThrottlingException: slow"},
		{503, ``, "", true, false, "Do: Service Unavailable"},
		{403, `<html>`, "", false, true, "Do: Forbidden"},
		{404, `<?xml version="1.0"?><Error><Code>NoSuchKey</Code><Message>no object</Message></Error>`, "NoSuchKey", false, true, "Do: NoSuchKey: no object"},
		{200, `{"a":`, "", false, false, "the answer is not what ECS sends"},
	} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			signed, err := sigv4.ParseRequest(r, sigv4.Key{ID: "A", Secret: "B"}, time.Now())
			body, _ := io.ReadAll(r.Body)
			if err != nil || signed.Verify(body) != nil || signed.Service != "ecs" || r.Header.Get("X-Amz-Target") != ECS.Target+".Do" || r.Header.Get("User-Agent") != "agent" {
				t.Errorf("the request: %v, %v", err, r.Header)
			}
			w.WriteHeader(tt.status)
			_, _ = io.WriteString(w, tt.body)
		}))
		var out struct{ A int }
		err := clientOf(server).Call(t.Context(), ECS, "Do", map[string]int{"b": 2}, &out)
		server.Close()
		var refused *Error
		if CodeOf(err) != tt.code || Refused(err) != tt.refuse || errors.As(err, &refused) && refused.Passing() != tt.passing || (err == nil) != (tt.message == "") || err != nil && !strings.Contains(err.Error(), tt.message) {
			t.Errorf("%d %s: %v", tt.status, tt.body, err)
		}
		if tt.message == "" && out.A != 1 {
			t.Error("the answer was not read")
		}
	}
}

func clientOf(s *httptest.Server) *Client {
	return &Client{HTTP: &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}, Region: "eu-central-1", UserAgent: "agent",
		Endpoints: map[string]string{"ecs": s.URL, "s3": s.URL},
		Credentials: func(context.Context) (Credentials, error) {
			return Credentials{AccessKeyID: "A", SecretAccessKey: "B"}, nil
		}}
}

// The endpoints of each partition, by region and variant.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	dual, fips := Variant{DualStack: true}, Variant{FIPS: true}
	for _, tt := range []struct {
		region, service string
		variant         Variant
		want            string
	}{
		{"eu-central-1", "ecs", Variant{}, "https://ecs.eu-central-1.amazonaws.com"},
		{"cn-north-1", "ecs", Variant{}, "https://ecs.cn-north-1.amazonaws.com.cn"},
		{"eusc-de-east-1", "ecs", Variant{}, "https://ecs.eusc-de-east-1.amazonaws.eu"},
		{"us-iso-east-1", "ecs", Variant{}, "https://ecs.us-iso-east-1.c2s.ic.gov"},
		{"us-isob-east-1", "ssm", Variant{}, "https://ssm.us-isob-east-1.sc2s.sgov.gov"},
		{"eu-isoe-west-1", "secretsmanager", Variant{}, "https://secretsmanager.eu-isoe-west-1.cloud.adc-e.uk"},
		{"us-gov-west-1", "ecs", fips, "https://ecs-fips.us-gov-west-1.amazonaws.com"},
		{"us-east-1", "ecs", dual, "https://ecs.us-east-1.api.aws"},
		{"us-east-1", "ecs", Variant{true, true}, "https://ecs-fips.us-east-1.api.aws"},
		{"us-east-1", "ssm", fips, "https://ssm-fips.us-east-1.amazonaws.com"},
		{"us-east-1", "s3", Variant{}, "https://s3.us-east-1.amazonaws.com"},
		{"eu-west-1", "s3", dual, "https://s3.dualstack.eu-west-1.amazonaws.com"},
		{"cn-north-1", "s3", Variant{}, "https://s3.cn-north-1.amazonaws.com.cn"},
		{"us-east-1", "ecr", Variant{}, "https://api.ecr.us-east-1.amazonaws.com"},
		{"eusc-de-east-1", "ecr", Variant{}, "https://api.ecr.eusc-de-east-1.amazonaws.eu"},
		{"us-east-1", "ecr", dual, "https://ecr.us-east-1.api.aws"},
		{"us-east-1", "ecr", fips, "https://ecr-fips.us-east-1.amazonaws.com"},
		{"eu-west-1", "sts", Variant{}, "https://sts.eu-west-1.amazonaws.com"},
		{"us-gov-west-1", "sts", fips, "https://sts.us-gov-west-1.amazonaws.com"},
	} {
		if got, err := (&Client{Region: tt.region, Variant: tt.variant}).Endpoint(tt.service); err != nil || got != tt.want {
			t.Errorf("%s %s %+v: %s, %v; want %s", tt.service, tt.region, tt.variant, got, err, tt.want)
		}
	}
}

// A clock that is wrong is corrected by the answer that refuses a signature, and uncorrected when it is right again. A refusal
// for another reason corrects nothing.
func TestTheClockIsCorrected(t *testing.T) {
	t.Parallel()
	ahead := time.Hour
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		now := time.Now().Add(ahead)
		w.Header().Set("Date", now.UTC().Format(http.TimeFormat))
		signed, err := sigv4.ParseRequest(r, sigv4.Key{ID: "A", Secret: "B"}, now)
		body, _ := io.ReadAll(r.Body)
		switch {
		case err != nil || signed.Verify(body) != nil:
			w.WriteHeader(http.StatusForbidden)
			_, _ = io.WriteString(w, `{"__type":"InvalidSignatureException","message":"Signature expired"}`)
		case r.Header.Get("Upgrade") != "":
			if ws, err := new(websocket.Upgrader).Upgrade(w, r, nil); err == nil {
				_ = ws.Close()
			}
		default:
			_, _ = io.WriteString(w, `{}`)
		}
	}))
	defer server.Close()
	c := clientOf(server)
	if err := c.Call(t.Context(), ECS, "Do", nil, nil); CodeOf(err) != "InvalidSignatureException" {
		t.Errorf("without a clock: %v", err)
	}
	var told []time.Duration
	c.Clock = &Clock{Changed: func(d time.Duration) { told = append(told, d) }}
	if err := c.Call(t.Context(), ECS, "Do", nil, nil); err != nil {
		t.Error(err)
	}
	if d := c.Clock.Offset() - ahead; d.Abs() > time.Minute {
		t.Errorf("the offset is %s", c.Clock.Offset())
	}
	ahead = -time.Hour
	ws, err := c.Dial(t.Context(), server.URL)
	if err != nil {
		t.Fatalf("the web socket: %v", err)
	}
	ws.Close("")
	ahead = 0
	if err := c.With(c.Credentials, "").Call(t.Context(), ECS, "Do", nil, nil); err != nil || c.Clock.Offset() != 0 {
		t.Errorf("%v, offset %s", err, c.Clock.Offset())
	}
	if len(told) != 3 {
		t.Errorf("it was told %v", told)
	}
	c.Credentials = func(context.Context) (Credentials, error) {
		return Credentials{AccessKeyID: "A", SecretAccessKey: "wrong"}, nil
	}
	if err := c.Call(t.Context(), ECS, "Do", nil, nil); CodeOf(err) != "InvalidSignatureException" || c.Clock.Offset() != 0 {
		t.Errorf("with wrong keys: %v, offset %s", err, c.Clock.Offset())
	}
}

func TestObjects(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/bucket/env/a b.env" || r.Header.Get("X-Amz-Content-Sha256") == "" || !strings.Contains(r.Header.Get("Authorization"), "/s3/aws4_request") {
			t.Errorf("%s, %v", r.URL.Path, r.Header)
		}
		_, _ = io.WriteString(w, "A=b\n")
	}))
	defer server.Close()
	if got, err := clientOf(server).Get(t.Context(), "bucket", "env/a b.env"); err != nil || string(got) != "A=b\n" {
		t.Errorf("%s, %v", got, err)
	}
}

// A bucket of another region says where it is; it is asked there once.
func TestObjectsOfAnotherRegion(t *testing.T) {
	t.Parallel()
	asked, region := 0, "ap-south-1"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked++
		if strings.HasPrefix(r.URL.Path, "/lost/") || !strings.Contains(r.Header.Get("Authorization"), "/ap-south-1/s3/") {
			w.Header().Set("X-Amz-Bucket-Region", region)
			w.WriteHeader(http.StatusMovedPermanently)
			_, _ = io.WriteString(w, "<Error><Code>PermanentRedirect</Code></Error>")
			return
		}
		_, _ = io.WriteString(w, "A=b\n")
	}))
	defer server.Close()
	if got, err := clientOf(server).Get(t.Context(), "bucket", "a.env"); err != nil || string(got) != "A=b\n" || asked != 2 {
		t.Errorf("%s, %v, asked %d times", got, err, asked)
	}
	if _, err := clientOf(server).Get(t.Context(), "lost", "a.env"); CodeOf(err) != "PermanentRedirect" || asked != 4 {
		t.Errorf("%v, asked %d times", err, asked)
	}
	for _, region = range []string{"", "evil.example/", "a b", "x@evil.example"} { // it becomes a part of a host name
		if _, err := clientOf(server).Get(t.Context(), "lost", "a.env"); CodeOf(err) != "PermanentRedirect" {
			t.Errorf("%q: %v", region, err)
		}
	}
	if asked != 8 {
		t.Errorf("asked %d times", asked)
	}
}

func TestHandshakes(t *testing.T) {
	t.Parallel()
	var status int
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if signed, err := sigv4.ParseRequest(r, sigv4.Key{ID: "A", Secret: "B"}, time.Now()); err != nil || signed.Verify(nil) != nil {
			t.Errorf("the handshake is signed: %v", err)
		}
		if status != 0 {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
			return
		}
		ws, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		_ = ws.WriteMessage(websocket.TextMessage, []byte("hello"))
		_ = ws.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, "bye"), time.Now().Add(time.Second))
		_ = ws.Close()
	}))
	defer server.Close()
	c, err := clientOf(server).Dial(t.Context(), server.URL+"/ws?b=2&a=1")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := c.Read(); err != nil || string(text) != "hello" {
		t.Errorf("%s, %v", text, err)
	}
	var closed *CloseError
	if _, err := c.Read(); !errors.As(err, &closed) || closed.Code != 1000 || !closed.Expected() {
		t.Errorf("the end: %v", err)
	}
	c.Close("")
	status, body = 400, `{"type":"InactiveInstanceException","message":{"message":"gone"}}`
	var refused *HandshakeError
	if _, err := clientOf(server).Dial(t.Context(), server.URL+"/ws"); !errors.As(err, &refused) || refused.Type != "InactiveInstanceException" || !strings.Contains(err.Error(), "gone") {
		t.Errorf("refused: %v", err)
	}
	status, body = 403, "<html>"
	if _, err := clientOf(server).Dial(t.Context(), server.URL+"/ws"); !errors.As(err, &refused) || refused.Status != 403 {
		t.Errorf("refused: %v", err)
	}
}

// A service that redirects, or answers without end or slowly, or names a web socket elsewhere, gets no further request, and costs a
// bounded amount.
func TestHostileServices(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		asked <- r.URL.Path + " " + r.Header.Get("Authorization") + r.Header.Get("X-Amz-Security-Token")
	}))
	t.Cleanup(elsewhere.Close)
	for name, answer := range map[string]http.HandlerFunc{
		"redirect of a POST": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/latest/meta-data/", http.StatusTemporaryRedirect)
		},
		"redirect to a GET": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/latest/meta-data/", http.StatusFound)
		},
		"redirects in circles": func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/", http.StatusPermanentRedirect) },
		"a body without end": func(w http.ResponseWriter, _ *http.Request) {
			for part := make([]byte, 1<<20); ; {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		},
		"deep JSON":      func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("[", 1<<20)) },
		"another answer": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, `{"endpoint": 7}`) },
		"a message of 1 MB": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"__type": "`+strings.Repeat("A", 1<<20)+`", "message": "`+strings.Repeat("é", 1<<20)+`"}`)
		},
		"an error of 1 MB": func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(400)
			_, _ = io.WriteString(w, strings.Repeat("<a>", 1<<18))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(answer)
			defer server.Close()
			var out struct{ Endpoint string }
			err := clientOf(server).Call(t.Context(), ECS, "DiscoverPollEndpoint", struct{}{}, &out)
			if err == nil || len(err.Error()) > 1100 {
				t.Errorf("the error is %.2000v", err)
			}
			if strings.HasPrefix(name, "redirect") && Refused(err) {
				t.Errorf("%v is final", err)
			}
		})
	}
	for _, address := range []string{"http://192.0.2.1/ws", "ws://evil.example/ws", "http://127.0.0.1.evil.example/ws", "file:///etc/passwd", "/ws", "", "http://localhost@evil.example/ws", "http://169.254.169.254/latest/"} {
		if _, err := clientOf(elsewhere).Dial(t.Context(), address); !errors.Is(err, errPlain) {
			t.Errorf("%q: %v", address, err)
		}
	}
	t.Cleanup(func() {
		select {
		case got := <-asked:
			t.Errorf("another address was asked: %s", got)
		default:
		}
	})
}
