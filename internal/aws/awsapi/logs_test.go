package awsapi_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	"github.com/google/go-cmp/cmp"
	"github.com/podtask/podtask/internal/aws/awsapi/logstreams"
)

// book are the logs of containers, by stream.
type book struct {
	streams []logstreams.Stream
	lines   map[string][]logstreams.Line
}

func (b *book) Streams(context.Context) []logstreams.Stream { return b.streams }

func (b *book) Lines(_ context.Context, s logstreams.Stream, since time.Time, fn func(logstreams.Line) error) error {
	for _, l := range b.lines[s.Name] {
		if l.Time.Before(since) {
			continue
		}
		if err := fn(l); err != nil {
			return err
		}
	}
	return nil
}

func (b *book) Last(_ context.Context, s logstreams.Stream) (logstreams.Line, bool, error) {
	all := b.lines[s.Name]
	if len(all) == 0 {
		return logstreams.Line{}, false, nil
	}
	return all[len(all)-1], true, nil
}

// write adds lines to a stream, n of each millisecond.
func (b *book) write(stream string, from time.Time, n int, texts ...string) {
	if b.lines == nil {
		b.lines = make(map[string][]logstreams.Line)
	}
	if _, ok := b.lines[stream]; !ok {
		b.lines[stream] = nil
		b.streams = append(b.streams, logstreams.Stream{Group: "/ecs/web", Name: stream, Task: strings.Repeat("a", 32), Container: "app", CreatedAt: from})
	}
	for i, text := range texts {
		b.lines[stream] = append(b.lines[stream], logstreams.Line{Time: from.Add(time.Duration(i/n) * time.Millisecond), Text: text})
	}
}

// writeTo adds a stream with lines to a group.
func (b *book) writeTo(group, stream string, at time.Time, texts ...string) {
	b.write(stream, at, 1, texts...)
	b.streams[len(b.streams)-1].Group = group
}

// numbered are the texts 0 to n-1.
func numbered(n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(i))
	}
	return all
}

// logsClient is the SDK's client with its usual retries: it closes the body of a request before the
// transport does, which then breaks off an answer that is longer than its buffer.
func logsClient(w *world) *cloudwatchlogs.Client {
	return cloudwatchlogs.New(cloudwatchlogs.Options{BaseEndpoint: &w.url, Region: "local", RetryMaxAttempts: 5, Credentials: credentials(key)})
}

var logStart = time.UnixMilli(1_700_000_000_500)

// GetLogEvents goes through a stream from either end, each line once, with lines of one
// millisecond, empty ones and large ones.
func TestGetLogEventsGoesBothWays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("web/app/1", logStart, 3, append(numbered(25), "", strings.Repeat("x", 600<<10), strings.Repeat("y", 600<<10))...)
	c := logsClient(w)
	for _, fromHead := range []bool{true, false} {
		var pages []string
		in := &cloudwatchlogs.GetLogEventsInput{LogGroupName: aws.String("/ecs/web"), LogStreamName: aws.String("web/app/1"), StartFromHead: &fromHead, Limit: aws.Int32(10)}
		for {
			out := must[*cloudwatchlogs.GetLogEventsOutput](t)(c.GetLogEvents(t.Context(), in))
			var texts []string
			for _, e := range out.Events {
				texts = append(texts, (*e.Message)[:min(len(*e.Message), 2)])
			}
			next := out.NextForwardToken
			if !fromHead {
				next = out.NextBackwardToken
			}
			if in.NextToken != nil && *next == *in.NextToken {
				if len(texts) > 0 {
					t.Errorf("the end has %q", texts)
				}
				break
			}
			pages = append(pages, strings.Join(texts, " "))
			in.NextToken = next
		}
		want := []string{"0 1 2 3 4 5 6 7 8 9", "10 11 12 13 14 15 16 17 18 19", "20 21 22 23 24 xx", "yy"}
		if !fromHead {
			want = []string{"yy", "16 17 18 19 20 21 22 23 24 xx", "6 7 8 9 10 11 12 13 14 15", "0 1 2 3 4 5"}
		}
		if diff := cmp.Diff(want, pages); diff != "" {
			t.Errorf("from the head %t: %s", fromHead, diff)
		}
	}
	out := must[*cloudwatchlogs.GetLogEventsOutput](t)(c.GetLogEvents(t.Context(), &cloudwatchlogs.GetLogEventsInput{
		LogGroupIdentifier: aws.String("arn:aws:logs:local:000000000000:log-group:/ecs/web:*"), LogStreamName: aws.String("web/app/1"),
		StartTime: aws.Int64(logStart.UnixMilli() + 1), EndTime: aws.Int64(logStart.UnixMilli() + 2),
	}))
	if len(out.Events) != 3 || *out.Events[0].Message != "3" {
		t.Errorf("in a millisecond: %+v", out.Events)
	}
}

// What `aws logs tail --follow` does: it asks again from the newest time and leaves out the
// events whose ids it knows.
func TestFilterLogEventsIsFollowed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := logsClient(w)
	known := map[string]bool{}
	var texts []string
	in := &cloudwatchlogs.FilterLogEventsInput{LogGroupName: aws.String("/ecs/web"), Limit: aws.Int32(7), StartTime: aws.Int64(logStart.UnixMilli())}
	follow := func() {
		t.Helper()
		for {
			out := must[*cloudwatchlogs.FilterLogEventsOutput](t)(c.FilterLogEvents(t.Context(), in))
			for _, e := range out.Events {
				if !known[*e.EventId] {
					texts = append(texts, *e.Message)
				}
				known[*e.EventId] = true
				in.StartTime = e.Timestamp
			}
			if in.NextToken = out.NextToken; in.NextToken == nil {
				return
			}
			in.StartTime = aws.Int64(logStart.UnixMilli())
		}
	}
	w.write("web/a/1", logStart.Add(-time.Minute), 1, "before")
	w.write("web/a/1", logStart, 2, "a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7")
	w.write("web/b/1", logStart, 1, "b0", "b1", "b2", "b3")
	follow()
	w.write("web/b/1", logStart.Add(3*time.Millisecond), 9, "b4")
	w.write("web/c/2", logStart.Add(time.Hour), 1, "c0")
	follow()
	follow()
	if got, want := strings.Join(texts, " "), "a0 a1 b0 a2 a3 b1 a4 a5 b2 a6 a7 b3 b4 c0"; got != want {
		t.Errorf("followed %s, want %s", got, want)
	}
	out := must[*cloudwatchlogs.FilterLogEventsOutput](t)(c.FilterLogEvents(t.Context(), &cloudwatchlogs.FilterLogEventsInput{
		LogGroupName: aws.String("/ecs/web"), LogStreamNames: []string{"web/a/1", "web/c/2"}, FilterPattern: aws.String(`"a" 4`),
	}))
	if len(out.Events) != 1 || *out.Events[0].Message != "a4" || *out.Events[0].LogStreamName != "web/a/1" {
		t.Errorf("filtered: %+v", out.Events)
	}
}

func TestGroupsAndStreamsOfLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 60 {
		w.write(fmt.Sprintf("web/app/%02d", 59-i), logStart.Add(time.Duration(i)*time.Second), 1)
	}
	c := logsClient(w)
	must[*cloudwatchlogs.CreateLogGroupOutput](t)(c.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: aws.String("/ecs/new")}))
	for _, name := range []string{"/ecs/new", "/ecs/web"} {
		if _, err := c.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: &name}); code(err) != "ResourceAlreadyExistsException" {
			t.Errorf("%s again: %v", name, err)
		}
	}
	w.start()
	c = logsClient(w)
	groups := must[*cloudwatchlogs.DescribeLogGroupsOutput](t)(c.DescribeLogGroups(t.Context(), &cloudwatchlogs.DescribeLogGroupsInput{LogGroupNamePrefix: aws.String("/ecs/")}))
	if len(groups.LogGroups) != 2 || *groups.LogGroups[0].LogGroupName != "/ecs/new" || *groups.LogGroups[1].CreationTime != logStart.UnixMilli() {
		t.Errorf("groups %+v", groups.LogGroups)
	}
	w.write("web/app/00", logStart.Add(time.Hour), 1, "last")
	one := must[*cloudwatchlogs.DescribeLogStreamsOutput](t)(c.DescribeLogStreams(t.Context(), &cloudwatchlogs.DescribeLogStreamsInput{LogGroupName: aws.String("/ecs/web"), Limit: aws.Int32(2)}))
	if got := one.LogStreams[0].LastEventTimestamp; got == nil || *got != logStart.Add(time.Hour).UnixMilli() || one.LogStreams[1].LastEventTimestamp != nil {
		t.Errorf("the last events are at %v and %v", got, one.LogStreams[1].LastEventTimestamp)
	}
	for _, in := range []cloudwatchlogs.DescribeLogStreamsInput{
		{OrderBy: "LogStreamName"}, {OrderBy: "LastEventTime", Descending: aws.Bool(true)},
	} {
		in.LogGroupName = aws.String("/ecs/web")
		var names []string
		for p := cloudwatchlogs.NewDescribeLogStreamsPaginator(c, &in); p.HasMorePages(); {
			for _, s := range must[*cloudwatchlogs.DescribeLogStreamsOutput](t)(p.NextPage(t.Context())).LogStreams {
				names = append(names, *s.LogStreamName)
			}
		}
		if len(names) != 60 || names[0] != "web/app/00" || names[59] != "web/app/59" {
			t.Errorf("by %s: %d streams, %v", in.OrderBy, len(names), names)
		}
	}
}

func TestBadRequestsForLogs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("s", logStart, 1, "x")
	for _, bad := range []struct{ name, body, code string }{
		{"GetLogEvents", `{"logGroupName": "/ecs/none", "logStreamName": "s"}`, "ResourceNotFoundException"},
		{"GetLogEvents", `{"logGroupName": "/ecs/web", "logStreamName": "none"}`, "ResourceNotFoundException"},
		{"GetLogEvents", `{"logStreamName": "s"}`, "InvalidParameterException"},
		{"GetLogEvents", `{"logGroupName": "/ecs/web", "logStreamName": "s", "nextToken": "x"}`, "InvalidParameterException"},
		{"GetLogEvents", `{"logGroupName": "/ecs/web", "logStreamName": "s", "limit": 10001}`, "InvalidParameterException"},
		{"FilterLogEvents", `{"logGroupName": "/ecs/web", "filterPattern": "{ $.a = 1 }"}`, "InvalidParameterException"},
		{"FilterLogEvents", `{"logGroupName": "/ecs/web", "filterPattern": "-a"}`, "InvalidParameterException"},
		{"FilterLogEvents", `{"logGroupName": "/ecs/web", "filterPattern": "\"a"}`, "InvalidParameterException"},
		{"FilterLogEvents", `{"logGroupName": "/ecs/web", "nextToken": "bm8"}`, "InvalidParameterException"},
		{"FilterLogEvents", `{"logGroupName": "/ecs/web", "logStreamNames": ["none"]}`, "ResourceNotFoundException"},
		{"DescribeLogStreams", `{"logGroupName": "/ecs/web", "orderBy": "Size"}`, "InvalidParameterException"},
		{"DescribeLogStreams", `{"logGroupIdentifier": "arn:aws:ecs:x"}`, "InvalidParameterException"},
		{"CreateLogGroup", `{"logGroupName": "a b"}`, "InvalidParameterException"},
		{"StartLiveTail", `{}`, "UnknownOperationException"},
	} {
		if status, answer := w.post("Logs_20140328."+bad.name, bad.body); status != 400 || !strings.Contains(answer, bad.code) {
			t.Errorf("%s %s: %d %s", bad.name, bad.body, status, answer)
		}
	}
}
