//! Charts of ratios in SVG, as in `docs/performance.md`: a dot for the ratio of each figure to the baseline in the same
//! run, and a bar from the lowest to the highest ratio of the turns. Several series have a legend, between the title
//! and the ratios; a single one is described by the title.

use std::fs;
use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// The colors of the series: the palette of Okabe and Ito, which color-blind people can distinguish.
const COLORS: [RGBColor; 5] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
];
/// The width of a chart in pixels.
const WIDTH: u32 = 840;
/// The height of a series within a row, and the space between rows.
const SERIES_HEIGHT: usize = 14;
const ROW_GAP: usize = 8;
/// The width of the names of the rows, and the heights of the title, of the legend and of the axis.
const NAMES: u32 = 230;
const TITLE: u32 = 34;
const LEGEND: u32 = 22;
const AXIS: u32 = 48;
/// The size of all texts but the title, whatever the height of the chart.
const TEXT: i32 = 13;
/// The width of a series in the legend.
const LEGEND_WIDTH: i32 = 120;

/// The ratio of a figure to the baseline, in several turns.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ratio {
    low: f64,
    median: f64,
    high: f64,
}

impl Ratio {
    /// The ratios of all turns.
    pub(crate) fn of(mut turns: Vec<f64>) -> Self {
        turns.sort_by(f64::total_cmp);
        let (first, last) = (turns.first().copied(), turns.last().copied());
        let (low, high) = first.zip(last).expect("there is a turn");
        Self { low, median: turns[turns.len() / 2], high }
    }
}

/// A chart: rows, each with a ratio of each series.
pub(crate) struct Chart {
    title: String,
    /// The meaning of a ratio, as the label of the axis.
    axis: String,
    series: Vec<String>,
    rows: Vec<(String, Vec<Ratio>)>,
}

impl Chart {
    /// A chart without rows.
    pub(crate) fn new(title: &str, axis: &str, series: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let series = series.into_iter().map(Into::into).collect();
        Self { title: title.to_owned(), axis: axis.replace('`', ""), series, rows: Vec::new() }
    }

    /// Adds a row, with a ratio of each series.
    pub(crate) fn add(&mut self, name: &str, ratios: Vec<Ratio>) {
        assert_eq!(ratios.len(), self.series.len(), "{name}");
        self.rows.push((name.to_owned(), ratios));
    }

    /// Writes the chart as `NAME.svg` into this directory, if there is one.
    pub(crate) fn write(&self, directory: Option<&Path>, name: &str) {
        let Some(directory) = directory else { return };
        fs::create_dir_all(directory).expect("the directory of charts can be made");
        let file = directory.join(name).with_extension("svg");
        let mut svg = String::new();
        self.draw(&mut svg).expect("a chart can be drawn");
        fs::write(&file, svg).expect("a chart can be written");
        println!("\nThe chart is {}.", file.display());
    }

    #[allow(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "rows are few")]
    fn draw(&self, svg: &mut String) -> Result<(), Box<dyn std::error::Error>> {
        let row_height = self.series.len() * SERIES_HEIGHT + ROW_GAP;
        let legend = if self.series.len() > 1 { LEGEND } else { 0 };
        let height = TITLE + legend + AXIS + (row_height * self.rows.len()) as u32;
        let highest = self.rows.iter().flat_map(|(_, ratios)| ratios).map(|ratio| ratio.high).fold(1.0, f64::max);
        let picture = SVGBackend::with_string(svg, (WIDTH, height)).into_drawing_area();
        picture.fill(&WHITE)?;
        let area = picture.titled(&self.title, ("sans-serif", 17))?;
        let (head, area) = area.split_vertically(legend);
        if legend > 0 {
            self.draw_legend(&head)?;
        }
        let count = self.rows.len() as f64;
        let mut chart = ChartBuilder::on(&area)
            .margin_right(16)
            .y_label_area_size(NAMES)
            .x_label_area_size(AXIS)
            .build_cartesian_2d(0.0..highest * 1.05, count..0.0)?;
        chart
            .configure_mesh()
            .disable_y_mesh()
            .disable_y_axis()
            .x_desc(&self.axis)
            .label_style(("sans-serif", TEXT))
            .light_line_style(WHITE)
            .draw()?;
        // Ratios beyond the line are better or worse than the baseline, as the label of the axis says.
        chart.draw_series([PathElement::new([(1.0, 0.0), (1.0, count)], BLACK.stroke_width(1))])?;
        for (row, (name, _)) in self.rows.iter().enumerate() {
            let (_, y) = chart.plotting_area().map_coordinate(&(0.0, row as f64 + 0.5));
            picture.draw(&Text::new(name.clone(), (8, y), name_style()))?;
        }
        for (number, (_, color)) in self.series.iter().zip(COLORS).enumerate() {
            let offset = (number as f64 + 0.5) * SERIES_HEIGHT as f64 + ROW_GAP as f64 / 2.0;
            let bars = self.rows.iter().enumerate().filter_map(|(row, (_, ratios))| {
                let Ratio { low, median, high } = *ratios.get(number)?;
                let place = row as f64 + offset / row_height as f64;
                Some(ErrorBar::new_horizontal(place, low, median, high, color.filled(), 6))
            });
            chart.draw_series(bars)?;
        }
        picture.present()?;
        Ok(())
    }

    /// Draws a dot and the name of each series, above the ratios so that none is covered.
    #[allow(clippy::cast_possible_wrap, reason = "the widths are small")]
    fn draw_legend<B: DrawingBackend>(
        &self,
        area: &DrawingArea<B, Shift>,
    ) -> Result<(), DrawingAreaErrorKind<B::ErrorType>> {
        let (mut x, y) = (NAMES as i32, LEGEND as i32 / 2);
        for (series, color) in self.series.iter().zip(COLORS) {
            area.draw(&Circle::new((x, y), 4, color.filled()))?;
            area.draw(&Text::new(series.clone(), (x + 10, y), name_style()))?;
            x += LEGEND_WIDTH;
        }
        Ok(())
    }
}

/// The style of the names of rows and series, whose place is the middle of their left side.
fn name_style() -> TextStyle<'static> {
    ("sans-serif", TEXT).into_font().color(&BLACK).pos(Pos::new(HPos::Left, VPos::Center))
}
