package deliver

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/smtp"
	"net/textproto"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/notice"
)

// mail sends a message by SMTP.
func (s Sender) mail(ctx context.Context, m Mail, n notice.Message) error {
	host, _, err := net.SplitHostPort(m.Server)
	if err != nil {
		return err
	}
	conn, err := (&net.Dialer{}).DialContext(ctx, "tcp", m.Server)
	if err != nil {
		return err
	}
	defer conn.Close()
	if until, ok := ctx.Deadline(); ok {
		_ = conn.SetDeadline(until) // TCP connections have them
	}
	conn = &bounded{Conn: conn, left: maxMailAnswers}
	secure := &tls.Config{ServerName: host, MinVersion: tls.VersionTLS12}
	if m.Secure {
		conn = tls.Client(conn, secure)
	}
	c, err := smtp.NewClient(conn, host)
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.Hello(helloName(s.Host)); err != nil {
		return refused(err)
	}
	if err := s.login(ctx, c, m, secure); err != nil {
		return err
	}
	if err := c.Mail(m.From); err != nil {
		return refused(err)
	}
	for _, to := range m.Recipients {
		if err := c.Rcpt(to); err != nil {
			return refused(err)
		}
	}
	w, err := c.Data()
	if err != nil {
		return refused(err)
	}
	if _, err := w.Write(letter(m, n, s.Host)); err != nil {
		return err
	}
	if err := w.Close(); err != nil {
		return refused(err)
	}
	_ = c.Quit() // it is delivered
	return nil
}

// maxMailAnswers limits the bytes of all answers of a mail server: one of SMTP may have lines without end.
const maxMailAnswers = 256 << 10

// bounded is a connection on which the other side says no more than a number of bytes.
type bounded struct {
	net.Conn
	left int
}

// Read implements net.Conn.
func (c *bounded) Read(b []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("the mail server says more than %d bytes", maxMailAnswers)
	}
	n, err := c.Conn.Read(b[:min(len(b), c.left)])
	c.left -= n
	return n, err
}

// login turns encryption on, and logs in. Neither is left out because the server does not offer it, but encryption on the loopback.
func (s Sender) login(ctx context.Context, c *smtp.Client, m Mail, secure *tls.Config) error {
	if !m.Secure {
		switch can, _ := c.Extension("STARTTLS"); {
		case can:
			if err := c.StartTLS(secure); err != nil {
				return err
			}
		case !loopback(secure.ServerName):
			return errors.New("the mail server offers no encryption (STARTTLS)")
		}
	}
	if m.Password == "" {
		return nil
	}
	password, err := s.secret(ctx, m.Password)
	if err != nil {
		return err
	}
	if err := c.Auth(smtp.PlainAuth("", m.User, password, secure.ServerName)); err != nil {
		return errors.New("the mail server refuses the user or the password")
	}
	return nil
}

// refused says whether a server refuses a message for good.
func refused(err error) error {
	var answer *textproto.Error
	if !errors.As(err, &answer) {
		return err
	}
	return &Error{notice.Failure{Text: notice.Short(fmt.Sprintf("the mail server answers %d %s", answer.Code, answer.Msg)), Refused: answer.Code >= 500}}
}

// helloName is the name of this host for a mail server.
func helloName(host string) string {
	for _, r := range host {
		if !(r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '.') {
			return "localhost"
		}
	}
	if host == "" {
		return "localhost"
	}
	return host
}

// letter is a message as a mail. Its ID is the same however often it is sent.
func letter(m Mail, n notice.Message, host string) []byte {
	var b bytes.Buffer
	for _, h := range [][2]string{
		{"From", m.From}, {"To", strings.Join(m.Recipients, ", ")}, {"Subject", ascii("[" + helloName(host) + "] " + n.Title())},
		{"Date", n.Created.Format(time.RFC1123Z)}, {"Message-ID", "<" + n.ID + "@podtask." + helloName(host) + ">"},
		{"Auto-Submitted", "auto-generated"}, {"MIME-Version", "1.0"}, {"Content-Type", "text/plain; charset=utf-8"}, {"Content-Transfer-Encoding", "base64"},
	} {
		b.WriteString(h[0] + ": " + h[1] + "\r\n")
	}
	b.WriteString("\r\n")
	text := base64.StdEncoding.EncodeToString([]byte(strings.ReplaceAll(n.Text(host), "\n", "\r\n") + "\r\n"))
	for ; len(text) > 76; text = text[76:] {
		b.WriteString(text[:76] + "\r\n")
	}
	b.WriteString(text + "\r\n")
	return b.Bytes()
}
