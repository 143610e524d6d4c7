package awsapi_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logtypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	"github.com/google/go-cmp/cmp"
)

// putEvents puts events of times in milliseconds after logStart into a stream.
func putEvents(t *testing.T, c *cloudwatchlogs.Client, stream string, at int64, texts ...string) error {
	t.Helper()
	in := cloudwatchlogs.PutLogEventsInput{LogGroupName: aws.String("/ecs/web"), LogStreamName: &stream}
	for i, text := range texts {
		in.LogEvents = append(in.LogEvents, logtypes.InputLogEvent{Message: &text, Timestamp: aws.Int64(logStart.UnixMilli() + at + int64(i))})
	}
	_, err := c.PutLogEvents(t.Context(), &in)
	return err
}

// `ecspresso verify` creates the group, which may be there, a stream, and puts an event into it. What clients put
// is read as the log of a task is, after a restart too, beside it.
func TestVerifyOfEcspressoPutsAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("p/app/1", logStart, 1, "from the task", "again")
	c := logsClient(w)
	group, stream := aws.String("/ecs/web"), aws.String("p/app/ecspresso-verify-1")
	if _, err := c.CreateLogGroup(t.Context(), &cloudwatchlogs.CreateLogGroupInput{LogGroupName: group}); code(err) != "ResourceAlreadyExistsException" {
		t.Error(err)
	}
	must[*cloudwatchlogs.CreateLogStreamOutput](t)(c.CreateLogStream(t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: group, LogStreamName: stream}))
	if err := putEvents(t, c, *stream, 2, "verify", "later"); err != nil {
		t.Fatal(err)
	}
	if err := putEvents(t, c, *stream, 1, "earlier"); err != nil {
		t.Fatal(err)
	}
	w.start()
	c = logsClient(w)
	out := must[*cloudwatchlogs.GetLogEventsOutput](t)(c.GetLogEvents(t.Context(), &cloudwatchlogs.GetLogEventsInput{LogGroupName: group, LogStreamName: stream, StartFromHead: aws.Bool(true)}))
	var got []string
	for _, e := range out.Events {
		got = append(got, *e.Message)
	}
	if diff := cmp.Diff([]string{"earlier", "verify", "later"}, got); diff != "" {
		t.Error(diff)
	}
	all := must[*cloudwatchlogs.FilterLogEventsOutput](t)(c.FilterLogEvents(t.Context(), &cloudwatchlogs.FilterLogEventsInput{LogGroupName: group, StartTime: aws.Int64(logStart.UnixMilli() + 1)}))
	got = nil
	for _, e := range all.Events {
		got = append(got, *e.LogStreamName+" "+*e.Message)
	}
	if diff := cmp.Diff([]string{"p/app/1 again", *stream + " earlier", *stream + " verify", *stream + " later"}, got); diff != "" {
		t.Error(diff)
	}
	streams := must[*cloudwatchlogs.DescribeLogStreamsOutput](t)(c.DescribeLogStreams(t.Context(), &cloudwatchlogs.DescribeLogStreamsInput{LogGroupName: group, LogStreamNamePrefix: stream})).LogStreams
	if len(streams) != 1 || *streams[0].LastEventTimestamp != logStart.UnixMilli()+3 || *streams[0].CreationTime != w.now.UnixMilli() {
		t.Errorf("%+v", streams)
	}
	must[*cloudwatchlogs.DeleteLogStreamOutput](t)(c.DeleteLogStream(t.Context(), &cloudwatchlogs.DeleteLogStreamInput{LogGroupName: group, LogStreamName: stream}))
	if err := putEvents(t, c, *stream, 1, "x"); code(err) != "ResourceNotFoundException" {
		t.Error(err)
	}
}

// A group that only tasks have made stays when a client has put something into it, and the tasks are gone.
func TestPutEventsStayWithoutTasks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("p/app/1", logStart, 1, "x")
	c := logsClient(w)
	must[*cloudwatchlogs.CreateLogStreamOutput](t)(c.CreateLogStream(t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: aws.String("/ecs/web"), LogStreamName: aws.String("mine")}))
	w.streams = nil
	if err := putEvents(t, c, "mine", 0, "x"); err != nil {
		t.Error(err)
	}
}

func TestWhatClientsPutIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write("p/app/1", logStart, 1, "x")
	c := logsClient(w)
	create := func(name string) error {
		_, err := c.CreateLogStream(t.Context(), &cloudwatchlogs.CreateLogStreamInput{LogGroupName: aws.String("/ecs/web"), LogStreamName: &name})
		w.now = w.now.Add(time.Second)
		return err
	}
	for i := range 51 {
		if err := create(fmt.Sprint("s", i)); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{"s50": "ResourceAlreadyExistsException", "p/app/1": "ResourceAlreadyExistsException", "a:b": "InvalidParameterException", "": "InvalidParameterException"} {
		if err := create(name); code(err) != want {
			t.Errorf("%q: %v", name, err)
		}
	}
	large := strings.Repeat("x", 200<<10)
	for _, c := range []struct {
		name string
		err  error
		want string
	}{
		{"the oldest went", putEvents(t, c, "s0", 0, "x"), "ResourceNotFoundException"},
		{"a task's", putEvents(t, c, "p/app/1", 0, "x"), "InvalidParameterException"},
		{"an empty one", putEvents(t, c, "s1", 0, ""), "InvalidParameterException"},
		{"large", putEvents(t, c, "s1", 0, large), "<nil>"},
		{"too large", putEvents(t, c, "s2", 0, large), "LimitExceededException"},
		{"small", putEvents(t, c, "s2", 0, "x"), "<nil>"},
	} {
		if code(c.err) != c.want {
			t.Errorf("%s: %v", c.name, c.err)
		}
	}
	for events, says := range map[string]string{"": "1 to", `{"timestamp": 2, "message": "a"}, {"timestamp": 1, "message": "b"}`: "chronological", `{"timestamp": -1, "message": "a"}`: "timestamp"} {
		if status, answer := w.post("Logs_20140328.PutLogEvents", `{"logGroupName": "/ecs/web", "logStreamName": "s1", "logEvents": [`+events+`]}`); status != 400 || !strings.Contains(answer, says) {
			t.Errorf("%s: %s", events, answer)
		}
	}
	if _, err := c.DeleteLogStream(t.Context(), &cloudwatchlogs.DeleteLogStreamInput{LogGroupName: aws.String("/ecs/web"), LogStreamName: aws.String("p/app/1")}); code(err) != "InvalidParameterException" {
		t.Error(err)
	}
}
