// Package strictdoc reads small YAML and JSON documents into Go structs, as strictly as task definitions
// are read: unknown members, wrong types and missing members are problems with file, line and remedy, and
// all of them are reported at once. The same structs give the JSON Schema of the document.
//
// Members are the fields with a tag json. Further tags: doc describes the member, need:"true" makes it
// required, enum:"a|b" lists the values of a text, min and max limit a number.
package strictdoc
