package splunk

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/internal/logs/logsend"
	"github.com/podtask/podtask/internal/uuid"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// Config configures a sender.
type Config struct {
	Options logdriver.SplunkOptions
	Origin  logdriver.Origin
	// Host is the name of this host.
	Host string
	// Token is the collector's. It is not in any error.
	Token string
}

// Sender sends to one collector. One goroutine at a time may use it. Close it.
type Sender struct {
	logsend.Queue[[]byte]
	config Config
	prefix string    // of each line in the format raw
	tails  [2]string // by stream: what comes behind a line in its event, in the other formats
	tail   string    // what comes behind the time of a message
	client *http.Client
	most   int // events of the next request
}

// New returns a sender.
func New(c Config) (*Sender, error) {
	config, err := logsend.TLSConfig(c.Options.TLS)
	if err != nil {
		return nil, &logroute.SendError{Text: err.Error()}
	}
	s := &Sender{config: c, most: logsend.BatchLines}
	s.client = &http.Client{
		Transport:     &http.Transport{TLSClientConfig: config, Proxy: http.ProxyFromEnvironment},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	attrs, tag := c.Options.Of(c.Origin), ""
	if !c.Options.Untagged {
		tag = c.Options.Tag.Of(c.Origin)
	}
	if tag != "" {
		s.prefix = tag + " "
	}
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		s.prefix += name + "=" + attrs[name] + " "
	}
	for stream := range s.tails {
		s.tails[stream] = members(struct {
			Source string            `json:"source"`
			Tag    string            `json:"tag,omitempty"`
			Attrs  map[string]string `json:"attrs,omitempty"`
		}{logroute.Stream(stream).String(), tag, attrs})
	}
	s.tail = members(struct {
		Host       string `json:"host"`
		Source     string `json:"source,omitempty"`
		SourceType string `json:"sourcetype,omitempty"`
		Index      string `json:"index,omitempty"`
	}{c.Host, c.Options.Source, c.Options.SourceType, c.Options.Index})
	return s, nil
}

// members is a struct of strings as JSON, without the brace before its members.
func members(of any) string {
	text, _ := json.Marshal(of)
	return string(text[1:])
}

// Add takes in a line. In the format raw, one without text is not sent: Splunk refuses it.
func (s *Sender) Add(e logroute.Entry) {
	format := s.config.Options.Format
	if format == "raw" && strings.TrimSpace(e.Text) == "" {
		s.Skip(e)
		return
	}
	var line any = e.Text
	switch {
	case format == "raw":
		line = s.prefix + e.Text
	case format == "json" && json.Valid([]byte(e.Text)):
		line = json.RawMessage(e.Text)
	}
	text, _ := json.Marshal(line) // a string, or JSON that is valid
	tail := s.tails[e.Stream]
	m := append(make([]byte, 0, len(text)+len(tail)+len(s.tail)+64), `{"event":`...)
	if format == "raw" {
		m = append(m, text...)
	} else {
		m = append(append(m, `{"line":`...), text...)
		m = append(append(m, ','), tail...)
	}
	m = append(m, `,"time":"`...)
	m = strconv.AppendFloat(m, float64(e.Time.UnixNano())/float64(time.Second), 'f', 6, 64)
	m = append(append(m, `",`...), s.tail...)
	s.Queue.Add(e, m)
}

// interval is Docker's.
const interval = 5 * time.Second

// Limits returns what the sender wants of lines.
func (s *Sender) Limits() logroute.Limits {
	return logroute.Limits{LineBytes: logsend.LineBytes, Wait: interval}
}

// Close closes the connections.
func (s *Sender) Close() error {
	s.client.CloseIdleConnections()
	return nil
}

// Send sends a batch and returns when the collector has answered. After an error, a
// *logroute.SendError, the lines are still there. A line that is refused alone is lost.
func (s *Sender) Send(ctx context.Context) (logroute.Sent, error) {
	events := s.Records()
	if len(events) == 0 {
		return s.Done(0, 0, ""), nil
	}
	for {
		n := min(len(events), s.most)
		err := s.post(ctx, events[:n])
		refused, bad := err.(*refusal)
		switch {
		case err == nil:
			s.most = logsend.BatchLines
			return s.Done(n, 0, ""), nil
		case bad && n > 1:
			s.most = n / 2
		case bad:
			s.most = logsend.BatchLines
			return s.Done(n, n, "refused: "+refused.text), nil
		default:
			return logroute.Sent{}, err
		}
	}
}

// refusal is the error for a request that is itself at fault.
type refusal struct{ text string }

func (r *refusal) Error() string { return r.text }

// callLimit bounds a request.
const callLimit = 30 * time.Second

func (s *Sender) post(ctx context.Context, events [][]byte) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	body := bytes.Join(events, nil)
	if s.config.Options.Gzip {
		body = compress(body, s.config.Options.Level)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.config.Options.URL, bytes.NewReader(body))
	if err != nil {
		return &logroute.SendError{Text: "the URL is not valid", Pause: refusePause}
	}
	req.Header.Set("Authorization", "Splunk "+s.config.Token)
	if s.config.Options.Gzip {
		req.Header.Set("Content-Encoding", "gzip")
	}
	if s.config.Options.Channel {
		req.Header.Set("X-Splunk-Request-Channel", uuid.New())
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return &logroute.SendError{Text: err.Error()}
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, answerBytes))
	return judge(resp.StatusCode, answer)
}

const (
	refusePause = 5 * time.Minute
	answerBytes = 1024
)

// The codes of an answer that say that an event is at fault (Splunk: HEC status codes).
var eventCodes = []int{5, 6, 12, 13, 15}

// judge turns an answer into an error; nil if the lines were accepted.
func judge(status int, answer []byte) error {
	var said struct {
		Text string `json:"text"`
		Code int    `json:"code"`
	}
	_ = json.Unmarshal(answer, &said) // a proxy may answer anything
	text := "Splunk answers " + strconv.Itoa(status)
	if said.Text != "" {
		text += ": " + said.Text
	}
	switch {
	case status == http.StatusOK:
		return nil
	case status == http.StatusRequestEntityTooLarge, status == http.StatusBadRequest && slices.Contains(eventCodes, said.Code):
		return &refusal{text}
	case status >= 500, status == http.StatusTooManyRequests, status == http.StatusRequestTimeout:
		return &logroute.SendError{Text: text}
	}
	return &logroute.SendError{Text: text, Pause: refusePause}
}

func compress(body []byte, level int) []byte {
	var out bytes.Buffer
	w, _ := gzip.NewWriterLevel(&out, level)
	_, _ = w.Write(body)
	_ = w.Close()
	return out.Bytes()
}
