package deliver

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/notice"
)

// Target is the destination of notices. It has no secret: Key, Token, Password and URLFrom are sources.
type Target struct {
	// URL of a webhook, or URLFrom the source of it; Format one of Formats.
	URL, URLFrom string
	Format       string
	// Key signs requests (Standard Webhooks), Token is sent as a bearer token.
	Key, Token string
	// Mail is a server, with the sender and the recipients.
	Mail *Mail
	// Command is a program with arguments, which gets the notice in JSON on its standard input.
	Command []string
}

// Mail is a mail server.
type Mail struct {
	// Server is HOST:PORT. Secure: TLS from the first byte, else by STARTTLS.
	Server     string
	Secure     bool
	User       string
	Password   string // a source
	From       string
	Recipients []string
}

// Kind is webhook, mail or command.
func (t Target) Kind() string {
	switch {
	case t.Mail != nil:
		return "mail"
	case len(t.Command) > 0:
		return "command"
	}
	return "webhook"
}

// Timeout limits one attempt.
const Timeout = 15 * time.Second

// Sender sends notices of a host. It may be used by several goroutines.
type Sender struct {
	// Host is the name of this host, Version that of podtask.
	Host, Version string
	// Secret reads a source.
	Secret func(ctx context.Context, source string) ([]byte, error)
	Getenv func(string) string
	Now    func() time.Time
}

// Error is the reason for an undelivered message. It has no secret.
type Error struct{ notice.Failure }

func (e *Error) Error() string { return e.Text }

// Send sends a message. The error is an *Error.
func (s Sender) Send(ctx context.Context, t Target, m notice.Message) error {
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	var err error
	switch t.Kind() {
	case "mail":
		err = s.mail(ctx, *t.Mail, m)
	case "command":
		err = s.command(ctx, t.Command, m)
	default:
		err = s.post(ctx, t, m)
	}
	if err == nil || errors.As(err, new(*Error)) {
		return err
	}
	if ctx.Err() != nil {
		err = errors.New("no answer within " + Timeout.String())
	}
	return &Error{notice.Failure{Text: notice.Short(err.Error())}}
}

// secret returns the value of a source as one line.
func (s Sender) secret(ctx context.Context, source string) (string, error) {
	value, err := s.Secret(ctx, source)
	return strings.TrimRight(string(value), "\r\n"), err
}
