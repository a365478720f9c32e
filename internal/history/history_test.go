package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestARecordIsReadAsItWasWritten(t *testing.T) {
	const ms = time.Millisecond
	r := Record{Cells: []Cell{
		{Start: noon, Up: 5 * time.Minute, Answered: 150, Shortest: 900 * time.Microsecond, Mean: ms, Longest: 2 * ms},
		{Start: noon.Add(15 * time.Minute), Up: time.Minute, Down: time.Minute, Answered: 30, Lost: 40, Shortest: ms, Mean: ms, Longest: ms},
	}}
	text, err := r.Text(noon.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	const first = `{"version":1,"written":"2026-11-21T13:00:00Z","from":"2026-11-21T12:00:00Z","cells":[[0,300,0,150,0,900,1000,2000],[3,60,60,30,40,1000,1000,1000]]}`
	if text != first {
		t.Errorf("got %s\nwant %s", text, first)
	}
	got, err := Parse(text)
	if diff := cmp.Diff(Record{Written: noon.Add(time.Hour), Cells: r.Cells}, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

// Whatever a gateway has counted, its text can be read again, and is not too long for that.
func TestTheLongestRecordFits(t *testing.T) {
	var r Record
	for i := range 2 * maxCells {
		r.Cells = append(r.Cells, Cell{
			Start: noon.Add(time.Duration(i-maxCells) * Step), Up: time.Hour, Down: 149*time.Second + time.Second/2,
			Answered: 1 << 40, Lost: 1 << 40, Shortest: time.Hour, Mean: time.Hour, Longest: time.Hour,
		})
	}
	text, err := r.Text(noon.Add(123456789))
	if err != nil {
		t.Fatal(err)
	}
	got, err := Parse(text)
	if err != nil || len(got.Cells) != maxCells || len(text) > maxText {
		t.Fatalf("%d cells in %d bytes: %v", len(got.Cells), len(text), err)
	}
	if last := got.Cells[len(got.Cells)-1]; !last.Start.Equal(noon) || last.Recorded() != Step {
		t.Errorf("the last cell is %+v", last)
	}
}

// Others may write the object, too.
func TestTextsThatNoGatewayWritesAreRefused(t *testing.T) {
	with := func(cells string) string {
		return fmt.Sprintf(`{"version":1,"written":"2026-11-21T13:00:00Z","from":"2026-11-21T12:00:00Z","cells":[%s]}`, cells)
	}
	if _, err := Parse(with("[0,300,0,150,0,900,1000,2000]")); err != nil {
		t.Fatal(err)
	}
	const form = "it does not have the form that gateways write"
	for name, c := range map[string]struct{ text, want string }{
		"no JSON":                    {"x", form},
		"cut off":                    {with("")[:40], form},
		"null":                       {"null", form},
		"another version":            {strings.Replace(with(""), `"version":1`, `"version":2`, 1), "it has version 2, and this program knows version 1"},
		"version 0":                  {strings.Replace(with(""), `"version":1`, `"version":0`, 1), form},
		"a later form":               {`{"version":2,"cells":"x"}`, "it has version 2, and this program knows version 1"},
		"too long":                   {with("") + strings.Repeat(" ", maxText), "bytes, want 16384 at most"},
		"deep":                       {strings.Repeat("[", maxText), form},
		"negative":                   {with("[0,-1,0,0,0,0,0,0]"), form},
		"a number without end":       {with("[" + strings.Repeat("9", 4000) + "]"), form},
		"words":                      {with(`["\u001b[2J"]`), form},
		"too few numbers":            {with("[0,300,0]"), "no gateway writes cell 0"},
		"too many numbers":           {with("[0,300,0,0,0,0,0,0,0]"), "no gateway writes cell 0"},
		"a cell twice":               {with("[1,1,0,0,0,0,0,0],[1,1,0,0,0,0,0,0]"), "no gateway writes cell 1"},
		"out of order":               {with("[1,1,0,0,0,0,0,0],[0,1,0,0,0,0,0,0]"), "no gateway writes cell 1"},
		"a cell of another day":      {with("[289,1,0,0,0,0,0,0]"), "no gateway writes cell 0"},
		"more time than there is":    {with("[0,299,2,0,0,0,0,0]"), "no gateway writes cell 0"},
		"more pings than there are":  {with("[0,300,0,10000,0,0,0,0]"), "no gateway writes cell 0"},
		"mean below shortest":        {with("[0,300,0,1,0,3,2,4]"), "no gateway writes cell 0"},
		"an hour of round trip":      {with("[0,300,0,1,0,1,1,3600000000]"), "no gateway writes cell 0"},
		"a round trip without pings": {with("[0,300,0,0,9,1,1,1]"), "no gateway writes cell 0"},
		"between two cells":          {strings.Replace(with("[0,300,0,1,0,1,1,1]"), "12:00:00", "12:00:01", 1), "no gateway writes cell 0"},
		"too many cells":             {with(strings.TrimSuffix(strings.Repeat("[0],", 400), ",")), "it has 400 cells, want 289 at most"},
	} {
		r, err := Parse(c.text)
		if err == nil || !strings.HasPrefix(err.Error(), "parse the recorded history: ") || !strings.HasSuffix(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", name, err, c.want)
		}
		if r.Cells != nil || !r.Written.IsZero() {
			t.Errorf("%s: read as %+v", name, r)
		}
	}
	if r, err := Parse(""); err != nil || r.Cells != nil {
		t.Errorf("nothing written yet: %+v, %v", r, err)
	}
}

func TestRecordsAreAddedUp(t *testing.T) {
	const ms = time.Millisecond
	var r Record
	r.At(noon).Answer(3 * ms)
	r.At(noon.Add(time.Minute)).Answer(ms)
	r.Add([]Cell{
		{Start: noon.Add(-time.Hour), Up: time.Minute},
		{Start: noon, Down: time.Minute, Answered: 2, Lost: 3, Shortest: 4 * ms, Mean: 6 * ms, Longest: 8 * ms},
	})
	want := []Cell{
		{Start: noon.Add(-time.Hour), Up: time.Minute},
		{Start: noon, Down: time.Minute, Answered: 4, Lost: 3, Shortest: ms, Mean: 4 * ms, Longest: 8 * ms},
	}
	if diff := cmp.Diff(want, r.Cells); diff != "" {
		t.Error(diff)
	}
	sum := Cell{Up: time.Minute, Down: time.Minute, Answered: 4, Lost: 3, Shortest: ms, Mean: 4 * ms, Longest: 8 * ms}
	if diff := cmp.Diff(sum, r.Sum()); diff != "" {
		t.Error(diff)
	}
}

func TestWordsSayWhatIsUnknown(t *testing.T) {
	r := Record{Cells: []Cell{{Start: noon, Up: 4 * time.Minute, Down: time.Minute, Answered: 990, Lost: 10, Shortest: 1, Mean: 7140 * time.Microsecond, Longest: 41300 * time.Microsecond}}}
	const want = "up 4m0s, down 1m0s, unknown 23h55m0s; round trip 7.1ms on average, 41ms at most; 1% of pings lost"
	if got := r.Words(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := (Record{}).Words(); got != "nothing was recorded" {
		t.Errorf("got %q of nothing", got)
	}
}

// The clock was set back by an hour, and the gateway records the same time of day again.
func TestATimeThatComesTwiceIsNotAddedUp(t *testing.T) {
	full := Cell{Start: noon, Up: Step, Answered: 150, Shortest: 1, Mean: 1, Longest: 1}
	again := Cell{Start: noon, Up: 2 * time.Minute, Down: time.Minute, Lost: 30}
	r := Record{Cells: []Cell{full}}
	r.Add([]Cell{again})
	if diff := cmp.Diff([]Cell{again}, r.Cells); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	adjusted := Record{Cells: []Cell{{Start: noon, Up: 3 * time.Minute}}}
	adjusted.Add([]Cell{{Start: noon, Up: 2*time.Minute + slack}})
	if got := adjusted.Cells[0].Up; got != Step+slack {
		t.Errorf("a clock that is adjusted by %s: got %s, want both parts", slack, got)
	}
}

func TestARecordKeepsOneDay(t *testing.T) {
	now := noon.Add(2 * time.Minute)
	var r Record
	for _, at := range []time.Time{now.Add(time.Hour), now, now.Add(-Span), now.Add(-Span - Step)} {
		r.At(at).Lost++
	}
	r.Keep(now)
	var kept []time.Time
	for _, c := range r.Cells {
		kept = append(kept, c.Start)
	}
	if want := []time.Time{noon.Add(-Span), noon}; !slices.Equal(kept, want) {
		t.Errorf("kept %v, want %v", kept, want)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(`{"version":1,"written":"2026-11-21T13:00:00Z","from":"2026-11-21T12:00:00Z","cells":[[0,300,0,150,0,900,1000,2000]]}`)
	f.Add(`{"version":1,"from":"9999-12-31T23:55:00Z","cells":[[288,0,0,0,0,0,0,0]]}`)
	f.Fuzz(func(t *testing.T, text string) {
		r, err := Parse(text)
		if err != nil || len(r.Cells) == 0 {
			return
		}
		want := slices.Clone(r.Cells)
		again, err := r.Text(want[len(want)-1].Start)
		if err != nil {
			return // a year without four digits
		}
		if got, err := Parse(again); err != nil || !cmp.Equal(want, got.Cells) {
			t.Errorf("%q becomes %q: %v", text, again, err)
		}
	})
}
