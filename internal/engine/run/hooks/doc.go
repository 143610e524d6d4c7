// Package hooks calls what answers the hooks and alarms of deployments on this host: programs and
// HTTP endpoints.
//
// A call gets the payload of ECS' lifecycle hooks as JSON, a program on its standard input, an
// endpoint as the body of a POST, and answers with hookStatus. Everything else is a failure,
// whose reason has the end of what was written. A name of AWS, the ARN of a Lambda function or
// the name of an alarm, is answered by an entry [[reference]] of the configuration, which Resolve
// looks up when a service is created or updated.
package hooks
