package json

import (
	std "encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"
)

// sample has the kinds of fields that stored and received values have.
type sample struct {
	Text   string        `json:"text"`
	Number int64         `json:"number,omitempty"`
	Small  int           `json:"small"`
	Flag   bool          `json:"flag"`
	Later  *int64        `json:"later"`
	Wait   time.Duration `json:"wait"`
	Bytes  []byte        `json:"bytes"`
	Inline *[]byte       `json:"inline,omitempty"`
	List   []string      `json:"list"`
	Array  [3]byte       `json:"array"`
	Any    any           `json:"any,omitempty"`
	Named  policy        `json:"named"`
	NoTag  int64
	inner
	Nested *sample `json:"nested,omitempty"`
}

type inner struct {
	Deep string `json:"deep,omitempty"`
}

type policy uint8

func (p policy) MarshalText() ([]byte, error) { return []byte(strings.Repeat("p", int(p))), nil }

func (p *policy) UnmarshalText(text []byte) error {
	if *p = policy(len(text)); len(text) > 5 {
		return errors.New("too long")
	}
	return nil
}

// TestDecodeIsEncodingJSON compares what is read, and whether it is refused, of texts that servers and users may send.
func TestDecodeIsEncodingJSON(t *testing.T) {
	texts := []string{
		``, ` `, `null`, `{}`, ` {"text":"x"} `, `{"text":"x"} x`, `[]`, `"x"`, `1`,
		`{"text":null,"number":null,"list":null,"later":null}`,
		`{"TEXT":"upper","Number":7,"nOtAg":3,"deep":"d","DEEP":"e"}`, `{"text":"a","text":"b","text":5}`,
		`{"text":1,"number":2,"flag":true}`, `{"number":"2","flag":true}`, `{"number":1.0}`,
		`{"number":1.5,"flag":true}`, `{"number":1e3}`, `{"number":9223372036854775807}`,
		`{"number":9223372036854775808,"flag":true}`, `{"number":-0}`, `{"later":3}`,
		`{"later":"x","flag":true}`, `{"wait":1000}`, `{"wait":"1s","flag":true}`, `{"bytes":"AAEC"}`,
		`{"bytes":"AA\nEC"}`, `{"bytes":"AAE"}`, `{"bytes":"!","flag":true}`, `{"bytes":[1,2]}`,
		`{"inline":"AAEC"}`, `{"inline":""}`, `{"list":["a",1,"b"],"flag":true}`,
		`{"list":{},"flag":true}`, `{"list":[]}`, `{"array":[1,2,3]}`, `{"array":[1]}`,
		`{"array":[1,2,3,4]}`, `{"array":[256],"flag":true}`, `{"any":{"a":[1,2.5,"x",null,true]}}`,
		`{"any":{"a":1,"a":2}}`, `{"named":"pp"}`, `{"named":"pppppp"}`, `{"named":5}`,
		`{"unknown":{"a":[{}]},"flag":true}`, "{\"text\":\"\xff\"}", `{"text":"\ud800"}`,
		`{"text":"\ud83d\ude00"}`, "{\"te\xffxt\":1}", "{\"text\":\"\n\"}", `{"text":'x'}`,
		`{"text":"x",}`, `{"nested":{"text":"x","nested":{"number":"bad","flag":true}},"flag":true}`,
		`{"nested":[]}`, `{"flag":1,"text":"x"}`, `{"flag":"true"}`, `{"text":"x"`, `{"text"}`,
		`{"number":01}`, `{"number":+1}`, `{"number":NaN}`, "\ufeff{}",
		strings.Repeat(`{"nested":`, 50) + `{}` + strings.Repeat(`}`, 50),
	}
	for _, text := range texts {
		var got, want sample
		gotErr, wantErr := Decode([]byte(text), &got), std.Unmarshal([]byte(text), &want)
		if !reflect.DeepEqual(got, want) || (gotErr == nil) != (wantErr == nil) {
			t.Errorf("%.100q is\n%+v, %v, and by encoding/json\n%+v, %v", text, got, gotErr, want, wantErr)
		}
	}
}

// TestEncodeIsEncodingJSON compares what is written, and that it is read as it was.
func TestEncodeIsEncodingJSON(t *testing.T) {
	three := int64(3)
	for _, v := range []any{
		sample{},
		&sample{
			Text: "<a> & \u2028 \x00 \x7f \"\\/\b\f\n\r\t é 😀", Later: &three, Bytes: []byte{0, 1}, Inline: &[]byte{},
			List: []string{}, Named: 3,
		},
		sample{Any: map[string]any{"b": 1, "a": []any{nil, true, "x"}}, Wait: time.Second},
		sample{inner: inner{Deep: "d"}, Nested: &sample{Flag: true}},
		struct{ R std.RawMessage }{std.RawMessage(`{"b": "<", "a" : 1.50,"a":2}`)},
		[]sample{{}}, map[string]int{"z": 1, "a": 2},
	} {
		got, gotErr := Encode(v)
		want, wantErr := std.Marshal(v)
		if string(got) != string(want) || gotErr != nil || wantErr != nil {
			t.Errorf("written is\n%s, %v, and by encoding/json\n%s, %v", got, gotErr, want, wantErr)
		}
	}
}

// TestNotUTF8 is how text that is no UTF-8 is stored. It is read as what encoding/json would have stored.
func TestNotUTF8(t *testing.T) {
	if got, err := Encode("a\xffb"); string(got) != "\"a\ufffdb\"" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

func TestJoin(t *testing.T) {
	for want, objects := range map[string][]string{
		`{}`: {`{}`, `{}`}, `{"a":1}`: {`{}`, `{"a":1}`}, `{"a":1,"b":{}}`: {`{"a":1}`, `{}`, `{"b":{}}`},
	} {
		var list [][]byte
		for _, o := range objects {
			list = append(list, []byte(o))
		}
		if got := Join(list...); string(got) != want {
			t.Errorf("%q joined are %s", objects, got)
		}
	}
}

func TestVerbatim(t *testing.T) {
	v := struct {
		Seq  Raw    `json:"seq"`
		Text string `json:"text"`
	}{Raw(`["<\u0041>",1.0]`), "<&>"}
	got, err := EncodeVerbatim(v)
	if want := `{"seq":["<\u0041>",1.0],"text":"<&>"}`; string(got) != want || err != nil {
		t.Errorf("%s, %v; want %s", got, err, want)
	}
	escaped, _ := Encode(v)
	if want := `{"seq":["\u003c\u0041\u003e",1.0],"text":"\u003c\u0026\u003e"}`; string(escaped) != want {
		t.Errorf("%s; want %s", escaped, want)
	}
}

// TestRecord reads what servers may have put into a record, and takes no name for another one.
func TestRecord(t *testing.T) {
	type record struct {
		Result Raw    `json:"result"`
		Text   string `json:"text"`
	}
	for _, result := range []string{`{"a":1,"a":2}`, "\"\xff\"", `{"source_last_seq":[1,"x"]}`} {
		raw, err := Encode(record{Raw(result), "t"})
		if err != nil {
			t.Fatal(err)
		}
		var back record
		if err := DecodeRecord(raw, &back); err != nil || back.Text != "t" || len(back.Result) == 0 {
			t.Errorf("%s is %+v, %v", raw, back, err)
		}
	}
	var r record
	if err := DecodeRecord([]byte(`{"TEXT":"x"}`), &r); err != nil || r.Text != "" {
		t.Errorf("a name in capitals is taken: %+v, %v", r, err)
	}
	if err := DecodeRecord([]byte(fmt.Sprintf(`{"text":%d}`, 1)), &r); err == nil {
		t.Error("a number is taken for a text")
	}
}
