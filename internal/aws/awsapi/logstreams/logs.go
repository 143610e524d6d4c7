package logstreams

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/podtask/podtask/internal/aws/awsapi/protocol"
	"github.com/podtask/podtask/internal/engine/facts/arn"
	"github.com/podtask/podtask/internal/state"
)

// Logs is the output of the containers that log to CloudWatch Logs, whether or not it is sent
// there.
type Logs interface {
	// Streams are those of all tasks that are recorded.
	Streams(ctx context.Context) []Stream
	// Lines calls fn for the lines of a stream in their order, from the second of since on;
	// zero: all of them. It stops at the first error of fn and returns it.
	Lines(ctx context.Context, s Stream, since time.Time, fn func(Line) error) error
	// Last is the last line of a stream; false: it has none.
	Last(ctx context.Context, s Stream) (Line, bool, error)
}

// Stream is the output of a container.
type Stream struct {
	// Group and Name are those that the log driver's options say.
	Group, Name string
	// Task is an id, Container the name of one of its containers.
	Task, Container string
	CreatedAt       time.Time

	put *putStream // of a stream that a client has created
}

// Line is a line of a container.
type Line struct {
	Time time.Time
	Text string
}

// logs are operations of CloudWatch Logs. There is no second store for the logs of tasks: the events are
// the lines of the task's own log, and end with the task.
type logs struct {
	logs    Logs
	records *state.Store
	now     func() time.Time

	mu sync.Mutex // for one change
}

const (
	// Target is the prefix of X-Amz-Target of CloudWatch Logs.
	Target = "Logs_20140328."
	// maxLogPage is the number of groups or streams that a page may have.
	maxLogPage = 50

	kindLogGroup = "log-group"
	goesWithTask = "the log goes with its task"
)

type entityIn struct {
	Attributes map[string]string `json:"attributes"`
	Key        map[string]string `json:"keyAttributes"`
}

// Operations returns the operations of CloudWatch Logs. What clients change is in records.
func Operations(source Logs, records *state.Store, now func() time.Time) []protocol.Operation {
	return (&logs{logs: source, records: records, now: now}).operations()
}

func (l *logs) operations() []protocol.Operation {
	const oneAccount = "there is one account here"
	return []protocol.Operation{
		protocol.Define("CreateLogGroup", protocol.Members(
			protocol.Honor("logGroupName!", "tags"),
			protocol.Keep[string]("the log is the task's own", "kmsKeyId", "logGroupClass=STANDARD|INFREQUENT_ACCESS|DELIVERY"), protocol.Keep[bool]("the log is the task's own", "deletionProtectionEnabled"),
		), l.createGroup),
		protocol.Define("DeleteLogGroup", protocol.Honor("logGroupName!"), l.deleteGroup),
		protocol.Define("PutRetentionPolicy", protocol.Members(protocol.Honor("logGroupName!"), protocol.Require(protocol.Keep[int](goesWithTask, "retentionInDays"))), l.putRetention),
		protocol.Define("DeleteRetentionPolicy", protocol.Honor("logGroupName!"), l.deleteRetention),
		protocol.Define("TagResource", protocol.Members(protocol.Honor("resourceArn!"), protocol.Honor("tags!")), l.tag),
		protocol.Define("UntagResource", protocol.Honor("resourceArn!", "tagKeys!"), l.untag),
		protocol.Define("ListTagsForResource", protocol.Honor("resourceArn!"), l.listTags),
		protocol.Define("CreateLogStream", protocol.Honor("logGroupName!", "logStreamName!"), l.createStream),
		protocol.Define("DeleteLogStream", protocol.Honor("logGroupName!", "logStreamName!"), l.deleteStream),
		protocol.Define("PutLogEvents", protocol.Members(
			protocol.Honor("logGroupName!", "logStreamName!", "logEvents!", "logEvents[].timestamp", "logEvents[].message"),
			protocol.Keep[string]("the order of requests is not checked, as in AWS now", "sequenceToken"), protocol.Keep[entityIn](oneAccount, "entity"),
		), l.putEvents),
		protocol.Define("DescribeLogGroups", protocol.Members(
			protocol.Honor("logGroupNamePrefix", "logGroupNamePattern", "limit", "nextToken"),
			protocol.Keep[bool](oneAccount, "includeLinkedAccounts"), protocol.Keep[string](oneAccount, "logGroupClass=STANDARD|INFREQUENT_ACCESS|DELIVERY"),
			protocol.Refuse("name a prefix or a pattern", "logGroupIdentifiers"), protocol.Refuse(oneAccount, "accountIdentifiers"),
		), l.groups),
		protocol.Define("DescribeLogStreams", protocol.Honor("logGroupName", "logGroupIdentifier", "logStreamNamePrefix", "orderBy=LogStreamName|LastEventTime", "descending", "limit", "nextToken"), l.streams),
		protocol.Define("GetLogEvents", protocol.Members(
			protocol.Honor("logStreamName!", "logGroupName", "logGroupIdentifier", "startTime", "endTime", "startFromHead", "limit", "nextToken"),
			protocol.Keep[bool]("nothing is masked here", "unmask"),
		), l.get),
		protocol.Define("FilterLogEvents", protocol.Members(
			protocol.Honor("logGroupName", "logGroupIdentifier", "logStreamNames", "logStreamNamePrefix", "startTime", "endTime", "filterPattern", "limit", "nextToken"),
			protocol.Keep[bool]("events come in the order of time, as they do in AWS now", "interleaved", "unmask", "startFromHead"),
		), l.filter),
	}
}

// inGroup names a group by its name or its ARN.
type inGroup struct {
	Name       string `json:"logGroupName"`
	Identifier string `json:"logGroupIdentifier"`
}

// find returns the streams of a group.
func (l *logs) find(ctx context.Context, in inGroup) (name string, g logGroup, err error) {
	if (in.Name == "") == (in.Identifier == "") {
		return "", g, protocol.Invalidf("name the group with logGroupName or with logGroupIdentifier")
	}
	name = cmp.Or(in.Name, in.Identifier)
	if rest, ok := strings.CutPrefix(in.Identifier, "arn:"); ok {
		_, name, ok = strings.Cut(rest, ":log-group:")
		if !ok {
			return "", g, protocol.Invalidf("logGroupIdentifier: %q is not the ARN of a log group", protocol.Shortened(in.Identifier))
		}
		name = strings.TrimSuffix(name, ":*")
	}
	all, err := l.byGroup(ctx)
	if err != nil {
		return "", g, err
	}
	g, ok := all[name]
	if !ok {
		return "", g, protocol.Failf(protocol.CodeNoResource, "The specified log group does not exist.")
	}
	return name, g, nil
}

// logGroupDoc is a group in answers.
type logGroupDoc struct {
	ARN         string `json:"arn"`
	GroupARN    string `json:"logGroupArn"`
	Name        string `json:"logGroupName"`
	Class       string `json:"logGroupClass"`
	CreatedAt   int64  `json:"creationTime"`
	Filters     int    `json:"metricFilterCount"`
	StoredBytes int64  `json:"storedBytes"`
}

type describeLogGroupsIn struct {
	Prefix  string `json:"logGroupNamePrefix"`
	Pattern string `json:"logGroupNamePattern"`
	Limit   *int   `json:"limit"`
	Token   string `json:"nextToken"`
}

func (l *logs) groups(ctx context.Context, in describeLogGroupsIn, _ protocol.Fields) (any, error) {
	if in.Prefix != "" && in.Pattern != "" {
		return nil, protocol.Invalidf("logGroupNamePrefix and logGroupNamePattern cannot be combined")
	}
	all, err := l.byGroup(ctx)
	if err != nil {
		return nil, err
	}
	var names []string
	for name := range all {
		if strings.HasPrefix(name, in.Prefix) && strings.Contains(strings.ToLower(name), strings.ToLower(in.Pattern)) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	some, next, err := logPage("DescribeLogGroups "+in.Prefix+"\t"+in.Pattern, in.Limit, in.Token, names, strings.Compare)
	if err != nil {
		return nil, err
	}
	docs := []any{}
	for _, name := range some {
		g := groupARN(name)
		doc := logGroupDoc{ARN: g + ":*", GroupARN: g, Name: name, Class: "STANDARD", CreatedAt: all[name].createdAt.UnixMilli()}
		docs = append(docs, protocol.WithMembers(doc, all[name].record.Kept))
	}
	return struct {
		Groups []any  `json:"logGroups"`
		Next   string `json:"nextToken,omitempty"`
	}{docs, next}, nil
}

func groupARN(name string) string {
	return arn.Of("logs", "log-group:"+name)
}

// logPage is page with the limits of CloudWatch Logs.
func logPage(list string, limit *int, token string, keys []string, compare func(a, b string) int) (some []string, next string, err error) {
	if err := protocol.Within("limit", limit, 1, maxLogPage); err != nil {
		return nil, "", err
	}
	return protocol.Page(list, protocol.Paging{MaxResults: limit, NextToken: token}, maxLogPage, keys, compare)
}

// logStreamDoc is a stream in answers.
type logStreamDoc struct {
	ARN       string `json:"arn"`
	Name      string `json:"logStreamName"`
	CreatedAt int64  `json:"creationTime"`
	// Last is 0 for a stream without events.
	Last        int64 `json:"lastEventTimestamp,omitempty"`
	Ingested    int64 `json:"lastIngestionTime,omitempty"`
	StoredBytes int64 `json:"storedBytes"`
}

type describeLogStreamsIn struct {
	inGroup
	Prefix     string `json:"logStreamNamePrefix"`
	OrderBy    string `json:"orderBy"`
	Descending bool   `json:"descending"`
	Limit      *int   `json:"limit"`
	Token      string `json:"nextToken"`
}

// streams lists the streams of a group, by name or by the time when their tasks were made:
// what the last event is would mean to read them all.
func (l *logs) streams(ctx context.Context, in describeLogStreamsIn, _ protocol.Fields) (any, error) {
	byTime := in.OrderBy == "LastEventTime"
	if byTime && in.Prefix != "" {
		return nil, protocol.Invalidf("logStreamNamePrefix: it cannot be combined with orderBy LastEventTime")
	}
	group, g, err := l.find(ctx, in.inGroup)
	if err != nil {
		return nil, err
	}
	// The keys sort as the answer does; the name is behind the tab.
	streams := make(map[string]Stream)
	for _, s := range g.streams {
		key := "\t" + s.Name
		if byTime {
			key = fmt.Sprintf("%020d\t%s", s.CreatedAt.UnixMilli(), s.Name)
		}
		if strings.HasPrefix(s.Name, in.Prefix) {
			streams[key] = s
		}
	}
	compare := strings.Compare
	if in.Descending {
		compare = func(a, b string) int { return strings.Compare(b, a) }
	}
	list, err := json.Marshal([]any{"DescribeLogStreams", group, in.Prefix, byTime, in.Descending})
	if err != nil {
		return nil, err
	}
	some, next, err := logPage(string(list), in.Limit, in.Token, slices.SortedFunc(maps.Keys(streams), compare), compare)
	if err != nil {
		return nil, err
	}
	docs := []logStreamDoc{}
	for _, key := range some {
		s := streams[key]
		doc := logStreamDoc{ARN: groupARN(group) + ":log-stream:" + s.Name, Name: s.Name, CreatedAt: s.CreatedAt.UnixMilli()}
		last, ok, err := l.last(ctx, s)
		if err != nil {
			return nil, err
		}
		if ok {
			doc.Last, doc.Ingested = last.Time.UnixMilli(), last.Time.UnixMilli()
		}
		docs = append(docs, doc)
	}
	return struct {
		Streams []logStreamDoc `json:"logStreams"`
		Next    string         `json:"nextToken,omitempty"`
	}{docs, next}, nil
}
