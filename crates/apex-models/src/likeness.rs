//! How alike launches are, as a part of the trees' file: the trees were grown on what it says.

use crate::refusal::Refusal;
use crate::tensor_file::{TensorFile, TensorWriter};
use apex_policy::predict::compared::{COMPARISONS, Signature};
use apex_policy::predict::likeness::Likeness;
use apex_policy::predict::parts::PARTS;

/// Reads it from a model file.
pub(crate) fn read(file: &TensorFile<'_>) -> Result<Likeness, Refusal> {
    let list = |name: &str| -> Result<Signature, Refusal> {
        let values = file.floats(&format!("likeness.{name}"), &[COMPARISONS])?;
        values.try_into().map_err(|_| Refusal::Missing(format!("likeness.{name}")))
    };
    let whole = file.floats("likeness.whole", &[3])?;
    let widths = file.floats("likeness.widths", &[PARTS])?;
    let likeness = Likeness {
        bends: list("bends")?.map(|bend| bend.max(0.0)),
        slopes: list("slopes")?.map(|slope| slope.max(0.0)),
        drift: list("drift")?,
        mean: list("mean")?,
        scale: list("scale")?,
        bend: whole[0].max(0.0),
        level: whole[1].max(0.0),
        // Without any noise two equal launches would have no answer.
        noise: whole[2].max(1e-5),
        widths: widths.try_into().map_err(|_| Refusal::Missing("likeness.widths".into()))?,
    };
    Ok(likeness)
}

/// Writes it into a model file.
pub(crate) fn write(likeness: &Likeness, file: TensorWriter) -> TensorWriter {
    let whole = [likeness.bend, likeness.level, likeness.noise];
    file.floats("likeness.bends", &[COMPARISONS], &likeness.bends)
        .floats("likeness.slopes", &[COMPARISONS], &likeness.slopes)
        .floats("likeness.drift", &[COMPARISONS], &likeness.drift)
        .floats("likeness.mean", &[COMPARISONS], &likeness.mean)
        .floats("likeness.scale", &[COMPARISONS], &likeness.scale)
        .floats("likeness.widths", &[PARTS], &likeness.widths)
        .floats("likeness.whole", &[3], &whole)
}
