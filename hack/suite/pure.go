package main

import "strings"

// pure are the packages that compute values from values. internal/testing/archtest holds them to that, and to this list.
var pure = strings.Fields(`
pkg/taskdef/refs
pkg/taskdef
pkg/ports
pkg/admission
internal/cli/timeline
pkg/taskdef/logdriver
internal/logs/logroute
internal/logs/firelens
pkg/fault
pkg/images/imageage
pkg/lifecycle
pkg/service
internal/notice
internal/unitfile/taskunit
internal/define/members
internal/define/pod
internal/define/calendar
internal/define/foreign
internal/define/foreign/toolfile
internal/define/foreign/cloudformation
internal/define/foreign/copilot
internal/define/foreign/ecspresso
internal/define/foreign/kubernetes
internal/define/foreign/terraform
internal/define/adjust
internal/define/short
internal/define/export
internal/define/stackfile
internal/aws/datachannel
pkg/taskdef/doctree
pkg/taskdef/suggest
pkg/taskdef/unrendered
pkg/scaling
internal/engine/decide/driver
internal/engine/decide/stack
`)
