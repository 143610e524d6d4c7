package deliver

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/notice"
)

// ascii writes a text for a header.
func ascii(text string) string { return mime.QEncoding.Encode("utf-8", notice.Short(text)) }

// CheckURL returns why notices are not sent to a URL. Secret: a secret goes with them, or is in the URL.
func CheckURL(text string, secret bool) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "":
		return errors.New("must be a URL such as https://hooks.example.com/podtask")
	case u.User != nil:
		return errors.New("has a user in the URL: write token = \"file:/PATH\", or the whole URL into a file and to = \"file:/PATH\"")
	case u.Fragment != "":
		return errors.New("has a # in the URL, which is never sent")
	case secret && u.Scheme == "http" && !loopback(u.Hostname()):
		return errors.New("would send a secret without encryption: write https://")
	}
	return nil
}

func loopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// client follows no redirect and uses no proxy, so that a request goes where the configuration says or nowhere.
var client = &http.Client{
	Timeout:       Timeout,
	CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	Transport: &http.Transport{
		DialContext: (&net.Dialer{Timeout: Timeout}).DialContext, TLSHandshakeTimeout: Timeout, ResponseHeaderTimeout: Timeout,
		MaxResponseHeaderBytes: 64 << 10, DisableKeepAlives: true, ForceAttemptHTTP2: true,
	},
}

// post sends a message to a webhook.
func (s Sender) post(ctx context.Context, t Target, m notice.Message) error {
	address := t.URL
	if t.URLFrom != "" {
		var err error
		if address, err = s.secret(ctx, t.URLFrom); err != nil {
			return err
		}
	}
	if err := CheckURL(address, t.URLFrom != "" || t.Token != ""); err != nil {
		return fmt.Errorf("the URL %w", err)
	}
	r := s.format(t.Format, m)
	if r.path != "" {
		u, err := url.Parse(address)
		if err != nil {
			return errors.New("the URL cannot be read")
		}
		address = u.JoinPath(r.path).String()
	}
	req, err := http.NewRequestWithContext(ctx, r.method, address, bytes.NewReader(r.body))
	if err != nil {
		return errors.New("the URL cannot be read")
	}
	req.Header = r.header
	req.Header.Set("User-Agent", "podtask/"+s.Version)
	if err := s.authorize(ctx, req, t, request{path: m.ID, body: r.body}); err != nil {
		return err
	}
	resp, err := client.Do(req)
	if bad, ok := errors.AsType[*url.Error](err); ok {
		return bad.Err // the URL may be a secret
	}
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 64<<10))
	return answer(resp, s.Now())
}

// authorize adds what proves who sends: headers of Standard Webhooks, and a token. The message has its ID as path.
func (s Sender) authorize(ctx context.Context, req *http.Request, t Target, m request) error {
	if t.Token != "" {
		token, err := s.secret(ctx, t.Token)
		if err != nil {
			return err
		}
		if strings.ContainsFunc(token, func(r rune) bool { return r < ' ' || r >= 0x7f }) {
			return errors.New("the token has characters that no header may have")
		}
		req.Header.Set("Authorization", "Bearer "+token)
	}
	at := strconv.FormatInt(s.Now().Unix(), 10)
	req.Header.Set("Webhook-Id", m.path)
	req.Header.Set("Webhook-Timestamp", at)
	if t.Key == "" {
		return nil
	}
	key, err := s.secret(ctx, t.Key)
	if err != nil {
		return err
	}
	req.Header.Set("Webhook-Signature", Sign(key, m.path, at, m.body))
	return nil
}

// Sign returns the signature of a request by the rules of Standard Webhooks. A key of the form whsec_BASE64 is decoded.
func Sign(key, id, at string, body []byte) string {
	secret := []byte(key)
	if text, ok := strings.CutPrefix(key, "whsec_"); ok {
		if raw, err := base64.StdEncoding.DecodeString(text); err == nil {
			secret = raw
		}
	}
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(id + "." + at + "."))
	h.Write(body)
	return "v1," + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// answer returns the meaning of an answer.
func answer(resp *http.Response, now time.Time) error {
	code := resp.StatusCode
	if code >= 200 && code < 300 {
		return nil
	}
	f := notice.Failure{Text: "the server answers " + strconv.Itoa(code) + " " + http.StatusText(code)}
	switch {
	case code >= 300 && code < 400:
		f.Text += ", and podtask follows no redirect"
		f.Refused = true
	case code == http.StatusUnauthorized, code == http.StatusForbidden, code == http.StatusRequestTimeout, code == http.StatusTooEarly, code == http.StatusTooManyRequests:
	case code >= 400 && code < 500:
		f.Refused = true
	}
	after := resp.Header.Get("Retry-After")
	if n, err := strconv.ParseUint(after, 10, 31); err == nil {
		f.After = time.Duration(n) * time.Second
	} else if at, err := http.ParseTime(after); err == nil {
		f.After = at.Sub(now)
	}
	return &Error{f}
}
