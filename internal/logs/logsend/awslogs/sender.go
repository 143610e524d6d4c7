package awslogs

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/aws/smithy-go"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/podtask/podtask/internal/logs/logroute"
	"github.com/podtask/podtask/pkg/taskdef/logdriver"
)

// Config configures a sender.
type Config struct {
	Options logdriver.AWSLogsOptions
	// Stream is the name of the stream.
	Stream string
	// Endpoint is a URL; empty: the region's.
	Endpoint string
	// Credentials returns credentials that are valid now.
	Credentials func(context.Context) (Credentials, error)
	// HTTP sends the requests; nil: a client of its own.
	HTTP *http.Client
}

// Credentials are credentials of AWS.
type Credentials struct {
	AccessKeyID, SecretAccessKey, Token string
	Expires                             time.Time
}

// Sender sends to one stream. One goroutine at a time may use it.
type Sender struct {
	config Config
	api    operations
	batch  batch
	most   int // events of the next request
	// accepted: a request succeeded, so that an event that is refused is at fault itself.
	accepted bool
	made     time.Time // when the stream was made last
}

// operations are the calls of CloudWatch that a sender makes. The client itself is in no type that something converts to an
// interface: the linker would keep its other hundred methods.
type operations struct {
	putLogEvents    func(context.Context, *cloudwatchlogs.PutLogEventsInput, ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.PutLogEventsOutput, error)
	createLogStream func(context.Context, *cloudwatchlogs.CreateLogStreamInput, ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.CreateLogStreamOutput, error)
	createLogGroup  func(context.Context, *cloudwatchlogs.CreateLogGroupInput, ...func(*cloudwatchlogs.Options)) (*cloudwatchlogs.CreateLogGroupOutput, error)
}

// callLimit bounds a request, so that a server that does not answer counts as failed.
const callLimit = 30 * time.Second

// New returns a sender. It calls nothing.
func New(c Config) *Sender {
	options := cloudwatchlogs.Options{
		Region: c.Options.Region, Retryer: aws.NopRetryer{}, AppID: "podtask",
		Credentials: aws.CredentialsProviderFunc(func(ctx context.Context) (aws.Credentials, error) {
			got, err := c.Credentials(ctx)
			if err != nil {
				return aws.Credentials{}, err
			}
			return aws.Credentials{AccessKeyID: got.AccessKeyID, SecretAccessKey: got.SecretAccessKey, SessionToken: got.Token, CanExpire: true, Expires: got.Expires, Source: "podtask"}, nil
		}),
	}
	if c.Endpoint != "" {
		options.BaseEndpoint = aws.String(c.Endpoint)
	}
	if c.HTTP != nil {
		options.HTTPClient = c.HTTP
	}
	api := cloudwatchlogs.New(options)
	s := &Sender{config: c, api: operations{api.PutLogEvents, api.CreateLogStream, api.CreateLogGroup}, most: maxEvents}
	if c.Options.Begin != nil {
		s.batch.multiline = c.Options.Begin.MatchString
	}
	return s
}

// Add takes in a line. Call it only while not Full.
func (s *Sender) Add(e logroute.Entry) { s.batch.add(e) }

// Limits returns what the sender wants of lines.
func (s *Sender) Limits() logroute.Limits {
	return logroute.Limits{LineBytes: EventBytes, Wait: s.config.Options.Flush}
}

// Full reports whether there is enough for a request.
func (s *Sender) Full() bool { return s.batch.full() }

// Settle ends an event of several lines that was begun before a time: lines that come later
// are not part of it. It reports whether an event still waits for lines.
func (s *Sender) Settle(before time.Time) (waits bool) {
	if open := s.batch.open; open != nil && open.time.Before(before) {
		s.batch.close()
	}
	return s.batch.open != nil
}

// Send sends what fits into a request and returns when the server has acknowledged it. Without
// anything to send it returns at once. After an error the lines are still there; the error is
// a *logroute.SendError.
func (s *Sender) Send(ctx context.Context) (sent logroute.Sent, err error) {
	if len(s.batch.events) == 0 {
		sent = logroute.Sent{Next: s.batch.next, Moved: s.batch.moved}
		s.batch.moved = false
		return sent, nil
	}
	for {
		n := s.batch.fits(s.most)
		lost, why, err := s.put(ctx, s.batch.events[:n])
		var refused *types.InvalidParameterException
		switch {
		case err == nil:
			s.accepted, s.most = true, maxEvents
			return s.done(n, lost, why), nil
		case errors.As(err, &refused) && n > 1:
			s.most = n / 2
		case errors.As(err, &refused) && s.accepted:
			s.most = maxEvents
			return s.done(n, n, "refused: "+refused.ErrorMessage()), nil
		default:
			return logroute.Sent{}, s.explain(ctx, err)
		}
	}
}

// done takes n events out of the batch, of which some are lost.
func (s *Sender) done(n, lost int, why string) logroute.Sent {
	sent := logroute.Sent{Moved: true, Lines: int64(n - lost), Lost: int64(lost), Why: why}
	for _, e := range s.batch.events[:n] {
		sent.Bytes += int64(len(e.text))
		sent.Until = later(sent.Until, e.time)
	}
	sent.Next = s.batch.drop(n)
	return sent
}

// put calls PutLogEvents.
func (s *Sender) put(ctx context.Context, events []event) (lost int, why string, err error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	in := &cloudwatchlogs.PutLogEventsInput{LogGroupName: &s.config.Options.Group, LogStreamName: &s.config.Stream}
	in.LogEvents = make([]types.InputLogEvent, len(events))
	times := make([]int64, len(events)) // one piece of memory for all
	for i := range events {
		times[i] = events[i].time.UnixMilli()
		in.LogEvents[i] = types.InputLogEvent{Message: &events[i].text, Timestamp: &times[i]}
	}
	slices.SortStableFunc(in.LogEvents, func(a, b types.InputLogEvent) int { return int(min(max(*a.Timestamp-*b.Timestamp, -1), 1)) })
	out, err := s.api.putLogEvents(ctx, in, s.format)
	if _, ok := errors.AsType[*types.DataAlreadyAcceptedException](err); ok {
		return 0, "", nil
	}
	if err != nil {
		return 0, "", err
	}
	if r := out.RejectedLogEventsInfo; r != nil {
		lost, why = rejected(r, len(events))
	}
	return lost, why, nil
}

// format asks CloudWatch to read events as metrics.
func (s *Sender) format(o *cloudwatchlogs.Options) {
	if f := s.config.Options.Format; f != "" {
		o.APIOptions = append(o.APIOptions, smithyhttp.AddHeaderValue("x-amzn-logs-format", f))
	}
}

// rejected counts the events of a request that CloudWatch took and did not keep.
func rejected(r *types.RejectedLogEventsInfo, n int) (lost int, why string) {
	var reasons []string
	first := int32(0) // events before it are too old
	for reason, end := range map[string]*int32{"too old": r.TooOldLogEventEndIndex, "older than the group keeps": r.ExpiredLogEventEndIndex} {
		if end != nil {
			first = max(first, min(*end, int32(min(n, math.MaxInt32))))
			reasons = append(reasons, reason)
		}
	}
	lost = int(first)
	if start := r.TooNewLogEventStartIndex; start != nil {
		lost += max(0, n-max(int(*start), lost))
		reasons = append(reasons, "too new")
	}
	slices.Sort(reasons)
	return min(lost, n), strings.Join(reasons, ", ")
}

// The pauses after an error.
const (
	makePause   = time.Minute
	refusePause = 5 * time.Minute
)

// explain makes an error that says when to try again. What does not exist is made first.
func (s *Sender) explain(ctx context.Context, err error) error {
	if _, ok := errors.AsType[*types.ResourceNotFoundException](err); ok {
		return s.create(ctx)
	}
	return failure(err)
}

// failure is an error of CloudWatch with the pause after it.
func failure(err error) error {
	var api smithy.APIError
	var answer *smithyhttp.ResponseError
	switch {
	case !errors.As(err, &api):
		return &logroute.SendError{Text: plain(err)} // no answer
	case passing[api.ErrorCode()], errors.As(err, &answer) && answer.HTTPStatusCode() >= 500:
		return &logroute.SendError{Text: api.ErrorCode() + ": " + api.ErrorMessage()}
	}
	return &logroute.SendError{Text: api.ErrorCode() + ": " + api.ErrorMessage(), Pause: refusePause}
}

// passing are the codes of errors that go away by themselves, or with the next credentials.
var passing = map[string]bool{
	"ThrottlingException": true, "Throttling": true, "TooManyRequestsException": true, "RequestLimitExceeded": true,
	"ServiceUnavailableException": true, "RequestTimeout": true, "RequestTimeoutException": true, "OperationAbortedException": true,
	"ExpiredToken": true, "ExpiredTokenException": true, "RequestExpired": true, "InvalidSequenceTokenException": true,
}

// plain is the cause of an error of the SDK.
func plain(err error) string {
	if op, ok := errors.AsType[*smithy.OperationError](err); ok {
		err = op.Err
	}
	if sending, ok := errors.AsType[*smithyhttp.RequestSendError](err); ok {
		err = sending.Err
	}
	return err.Error()
}

// create makes the stream, and the group if it may, once a minute.
func (s *Sender) create(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	o := s.config.Options
	missing := &logroute.SendError{Text: fmt.Sprintf("there is no log stream %s in the log group %s", s.config.Stream, o.Group), Pause: makePause}
	if !o.CreateStream || time.Since(s.made) < makePause {
		return missing
	}
	err := s.createStream(ctx)
	var absent *types.ResourceNotFoundException
	if errors.As(err, &absent) && o.CreateGroup {
		_, err = s.api.createLogGroup(ctx, &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &o.Group})
		if err == nil || exists(err) {
			err = s.createStream(ctx)
		}
	}
	switch {
	case err == nil:
		s.made = time.Now()
		return &logroute.SendError{Text: "the log stream was just made", Pause: time.Millisecond}
	case errors.As(err, &absent):
		return &logroute.SendError{Text: fmt.Sprintf("there is no log group %s: make it, or set awslogs-create-group", o.Group), Pause: makePause}
	}
	return failure(err)
}

func (s *Sender) createStream(ctx context.Context) error {
	_, err := s.api.createLogStream(ctx, &cloudwatchlogs.CreateLogStreamInput{LogGroupName: &s.config.Options.Group, LogStreamName: &s.config.Stream})
	if exists(err) {
		return nil
	}
	return err
}

func exists(err error) bool {
	var already *types.ResourceAlreadyExistsException
	return errors.As(err, &already)
}

// Prepare makes the stream where it does not exist, for a container that is to start only with
// it.
func (s *Sender) Prepare(ctx context.Context) error {
	s.made = time.Time{}
	err := s.create(ctx)
	if _, ok := errors.AsType[*logroute.SendError](err); ok && !s.made.IsZero() {
		return nil
	}
	return err
}
