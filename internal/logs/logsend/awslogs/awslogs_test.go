package awslogs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/testing/logstest"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// sending is a sender with its server.
type sending struct {
	*Sender
	t      *testing.T
	server *logstest.Server
	added  int64
}

func newSending(t *testing.T, change func(*logdriver.AWSLogsOptions), groups ...string) *sending {
	server := logstest.New(groups...)
	h := httptest.NewServer(server)
	t.Cleanup(h.Close)
	o := logdriver.AWSLogsOptions{Region: "eu-west-1", Group: "shop", CreateStream: true, Flush: 5 * time.Second}
	if change != nil {
		change(&o)
	}
	return &sending{t: t, server: server, Sender: New(Config{
		Options: o, Stream: "web", Endpoint: h.URL,
		Credentials: func(context.Context) (Credentials, error) {
			return Credentials{AccessKeyID: "k", SecretAccessKey: "top secret", Expires: time.Now().Add(time.Hour)}, nil
		},
	})}
}

// add takes in lines, each a second after the one before.
func (s *sending) add(texts ...string) {
	for _, text := range texts {
		s.added++
		e := logroute.Entry{Time: noon.Add(time.Duration(s.added) * time.Second), Text: text}
		e.Next[0], e.Next[1] = logroute.Mark{Segment: 1, Offset: s.added}, logroute.Mark{Segment: 1, Offset: s.added}
		s.Add(e)
	}
}

// all sends until nothing is left, and returns what was sent.
func (s *sending) all() (sum logroute.Sent) {
	s.t.Helper()
	for range 100 {
		sent, err := s.Send(s.t.Context())
		var failed *logroute.SendError
		if errors.As(err, &failed) && failed.Pause == time.Millisecond {
			continue // the stream was just made
		}
		if err != nil {
			s.t.Fatal(err)
		}
		if !sent.Moved {
			return sum
		}
		sum.Lines, sum.Lost, sum.Next, sum.Why, sum.Until = sum.Lines+sent.Lines, sum.Lost+sent.Lost, sent.Next, sum.Why+sent.Why, sent.Until
	}
	s.t.Fatal("it never ends")
	return sum
}

func (s *sending) want(texts ...string) {
	s.t.Helper()
	if got := s.server.Messages("shop", "web"); !slices.Equal(got, texts) {
		s.t.Errorf("the stream has %.300q, want %.300q", got, texts)
	}
}

func TestLinesBecomeEvents(t *testing.T) {
	t.Parallel()
	s := newSending(t, nil, "shop")
	s.add("", "one", "", "two\r", "a\xffb", "")
	sum := s.all()
	s.want("one", "two\r", "a\ufffdb")
	if sum.Lines != 3 || sum.Next[0].Offset != 6 || !sum.Until.Equal(noon.Add(5*time.Second)) {
		t.Errorf("it reports %+v", sum)
	}
	s.add("", "")
	if sum := s.all(); sum.Next[0].Offset != 8 || len(s.server.Requests("PutLogEvents")) != 2 {
		t.Errorf("empty lines are sent, or do not move the position: %+v", sum)
	}
}

func TestRequestsKeepTheLimits(t *testing.T) {
	t.Parallel()
	s := newSending(t, nil, "shop")
	var want []string
	add := func(text string) {
		want = append(want, text)
		s.add(text)
	}
	for i := range 12_000 {
		add(fmt.Sprint(i))
	}
	s.all()
	for range 6 {
		add(strings.Repeat("x", EventBytes))
	}
	s.all()
	add("before")
	s.added += 3600 * 25
	add("a day later")
	s.all()
	s.want(want...) // the server refuses what is beyond a limit
}

func TestAnEventIsCutBetweenCharacters(t *testing.T) {
	t.Parallel()
	s := newSending(t, nil, "shop")
	s.add(strings.Repeat("\xff", 100_000)) // each byte becomes three
	s.all()
	got := s.server.Messages("shop", "web")
	for _, text := range got {
		if len(text) > EventBytes || !utf8.ValidString(text) {
			t.Errorf("an event has %d bytes", len(text))
		}
	}
	if strings.Join(got, "") != strings.Repeat("\ufffd", 100_000) {
		t.Error("the parts are not the whole")
	}
}

// Parts of a line may be in several requests. Until the last of them was taken, the line counts as
// not delivered.
func TestAnEventInPartsIsDeliveredWithItsLastPart(t *testing.T) {
	t.Parallel()
	s := newSending(t, nil, "shop")
	s.add("begin")
	s.all()
	const parts = 9 // more than two requests have room for
	s.add(strings.Repeat("x", parts*EventBytes))
	for taken := 0; ; {
		sent, err := s.Send(t.Context())
		if err != nil || !sent.Moved {
			t.Fatal(sent, err)
		}
		taken += int(sent.Lines)
		if taken == parts {
			if sent.Next[0].Offset != 2 {
				t.Errorf("the line was sent, and the position is %+v", sent.Next)
			}
			return
		}
		if sent.Next[0].Offset != 1 {
			t.Fatalf("with %d of %d parts the position is %+v", taken, parts, sent.Next)
		}
	}
}

func TestEventsOfSeveralLines(t *testing.T) {
	t.Parallel()
	s := newSending(t, func(o *logdriver.AWSLogsOptions) { o.Begin = regexp.MustCompile(`^\d`) }, "shop")
	s.add("lost start", "1 first", " at x", "", "2 second")
	if sum := s.all(); sum.Next[0].Offset != 4 {
		t.Errorf("the position is behind what was not sent: %+v", sum)
	}
	s.want("lost start\n", "1 first\n at x\n\n")
	if !s.Settle(noon) {
		t.Error("an event that was begun later is ended")
	}
	s.add(" at y")
	if s.Settle(noon.Add(time.Hour)) {
		t.Error("an old event still waits")
	}
	s.all()
	s.want("lost start\n", "1 first\n at x\n\n", "2 second\n at y\n")
}

func TestWhatIsMissingIsMade(t *testing.T) {
	t.Parallel()
	s := newSending(t, nil)
	s.add("one")
	var failed *logroute.SendError
	if _, err := s.Send(t.Context()); !errors.As(err, &failed) || failed.Pause != makePause || !strings.Contains(failed.Text, "awslogs-create-group") {
		t.Errorf("without a group: %v", err)
	}
	s.config.Options.CreateGroup = true
	s.all()
	s.want("one")
}

func TestFailuresSayWhenToTryAgain(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		fails logstest.Failure
		pause time.Duration
	}{
		{"throttled", logstest.Failure{Status: 400, Code: "ThrottlingException", Message: "Rate exceeded"}, 0},
		{"broken", logstest.Failure{Status: 500, Code: "InternalFailure"}, 0},
		{"unavailable", logstest.Failure{Status: 503, Code: "ServiceUnavailableException"}, 0},
		{"cut before", logstest.Failure{Cut: true}, 0},
		{"expired", logstest.Failure{Status: 400, Code: "ExpiredTokenException"}, 0},
		{"denied", logstest.Failure{Status: 400, Code: "AccessDeniedException", Message: "no"}, refusePause},
		{"all refused", logstest.Failure{Status: 400, Code: "InvalidParameterException", Message: "bad group"}, refusePause},
	} {
		s := newSending(t, nil, "shop")
		s.add("one", "two")
		s.server.Fail(func(logstest.Request) *logstest.Failure { return &tt.fails })
		var failed *logroute.SendError
		if _, err := s.Send(t.Context()); !errors.As(err, &failed) || failed.Pause != tt.pause || strings.Contains(failed.Text, "secret") {
			t.Errorf("%s: %+v", tt.name, err)
		}
		s.server.Fail(nil)
		s.all()
		s.want("one", "two")
	}
}

func TestAnAnswerThatIsLostRepeatsTheBatch(t *testing.T) {
	t.Parallel()
	s := newSending(t, nil, "shop")
	s.add("one")
	s.all()
	s.server.Fail(func(logstest.Request) *logstest.Failure { return &logstest.Failure{Cut: true, After: true} })
	s.add("two")
	if _, err := s.Send(t.Context()); err == nil {
		t.Error("no error")
	}
	s.server.Fail(nil)
	s.all()
	s.want("one", "two", "two")
}

func TestOnePoisonedEventIsSetAside(t *testing.T) {
	t.Parallel()
	s := newSending(t, nil, "shop")
	s.server.Fail(func(r logstest.Request) *logstest.Failure {
		if slices.ContainsFunc(r.Events, func(e logstest.Event) bool { return e.Message == "poison" }) {
			return &logstest.Failure{Status: 400, Code: "InvalidParameterException", Message: "no poison"}
		}
		return nil
	})
	s.add("a", "b", "c", "poison", "d", "e")
	sum := s.all()
	s.want("a", "b", "c", "d", "e")
	if sum.Lost != 1 || sum.Lines != 5 || !strings.Contains(sum.Why, "no poison") {
		t.Errorf("it reports %+v", sum)
	}
}

func TestRejectedEventsAreCounted(t *testing.T) {
	t.Parallel()
	s := newSending(t, nil, "shop")
	s.add("x")
	s.all()
	s.server.Reject(map[string]int{"tooOldLogEventEndIndex": 2, "tooNewLogEventStartIndex": 4})
	s.add("a", "b", "c", "d", "e")
	if sum := s.all(); sum.Lost != 3 || sum.Lines != 2 || !strings.Contains(sum.Why, "too new, too old") {
		t.Errorf("it reports %+v", sum)
	}
}

func TestTheFormatIsAHeader(t *testing.T) {
	t.Parallel()
	s := newSending(t, func(o *logdriver.AWSLogsOptions) { o.Format = "json/emf" }, "shop")
	s.add("{}")
	s.all()
	for _, r := range s.server.Requests("PutLogEvents") {
		if r.Header.Get("X-Amzn-Logs-Format") != "json/emf" {
			t.Errorf("the headers are %v", r.Header)
		}
	}
}

// BenchmarkBatch joins pieces of conmon to lines, and puts these into batches: what a core does
// for each byte before it is sent.
func BenchmarkBatch(b *testing.B) {
	for name, begins := range map[string]func(string) bool{"lines": nil, "multiline": func(string) bool { return false }} {
		b.Run(name, func(b *testing.B) {
			line := logroute.Piece{Time: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), Last: true, Text: bytes.Repeat([]byte("x"), 100)}.Append(nil)
			j, batch := logroute.NewJoiner(logroute.Position{}, EventBytes), batch{multiline: begins}
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for at := int64(0); b.Loop(); at += int64(len(line)) {
				p, _ := logroute.ParsePiece(line[:len(line)-1])
				for _, e := range j.Add(p, logroute.Mark{Segment: 1, Offset: at}, at+int64(len(line))) {
					batch.add(e)
				}
				if batch.full() {
					batch.drop(batch.fits(maxEvents))
				}
			}
		})
	}
}
